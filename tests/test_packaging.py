"""What the wheel holds, and what it says of itself."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]


def package_folder(root: Path, package: str) -> Path:
    return root.joinpath(*package.split(".")[1:])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy so that nothing is written into the checkout."""
    source = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        folder = package_folder(source, package)
        folder.mkdir(parents=True, exist_ok=True)
        for path in package_folder(ROOT, package).glob("*.py"):
            shutil.copy(path, folder)
    shutil.copytree(ROOT / "encoders" / "calibrations", source / "encoders" / "calibrations")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "tests", source / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    built = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    result = subprocess.run([*command, "-w", str(built), str(source)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return zipfile.ZipFile(next(built.glob("*.whl")))


def test_wheel_holds_every_module_and_no_test(wheel: zipfile.ZipFile) -> None:
    expected = {
        f"{package.replace('.', '/')}/{path.name}"
        for package in PACKAGES
        for path in package_folder(ROOT, package).glob("*.py")
    } | {f"slotrag/encoders/calibrations/{path.name}" for path in (ROOT / "encoders" / "calibrations").glob("*.json")}
    code = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert code == expected


def test_wheel_metadata(wheel: zipfile.ZipFile) -> None:
    import slotrag

    name = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Name"] == "slotrag"
    assert metadata["Version"] == slotrag.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra") or []) == {"cpu", "gpu", "eval", "st", "web", "test"}
    assert metadata.get_payload().startswith("# slotrag")
    assert any(file.endswith("licenses/LICENSE") for file in wheel.namelist())


def test_wheel_entry_points_lead_somewhere(wheel: zipfile.ZipFile) -> None:
    from importlib import import_module

    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    name = next(name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    parser.read_string(wheel.read(name).decode())
    assert parser["console_scripts"]["slotrag"] == "slotrag.tui.cli:main"
    assert {"mean", "st"} <= set(parser["slotrag.encoders"])
    for group in parser.sections():
        for value in parser[group].values():
            module, _, attribute = value.partition(":")
            assert hasattr(import_module(module), attribute), value


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_distributions() -> set[str]:
    """Distributions whose modules the package imports anywhere, by the installed metadata."""
    import ast

    homes = packages_distributions()
    found = set()
    for package in PACKAGES:
        for path in package_folder(ROOT, package).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                modules = []
                if isinstance(node, ast.Import):
                    modules = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    modules = [node.module]
                tops = {module.split(".")[0] for module in modules}
                found |= {normal(home) for top in tops for home in homes.get(top, []) if top != "slotrag"}
    return found


def test_every_imported_package_is_declared() -> None:
    requirements = [
        *PROJECT["project"]["dependencies"],
        *(item for group in PROJECT["project"]["optional-dependencies"].values() for item in group),
    ]
    declared = {normal(re.split(r"[\s\[<>=!;~]", item)[0]) for item in requirements}
    assert imported_distributions() - declared == set()


def test_every_requirement_has_a_pinned_version_that_satisfies_it() -> None:
    from packaging.requirements import Requirement

    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    pinned = {normal(name): version for name, version in pins.items()}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["cpu"], *extras["eval"], *extras["st"], *extras["test"]]
    for requirement in map(Requirement, wanted):
        if requirement.name != "slotrag":
            assert requirement.specifier.contains(pinned[normal(requirement.name)]), str(requirement)


def test_version_is_in_the_changelog() -> None:
    import slotrag

    assert f"## [{slotrag.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
