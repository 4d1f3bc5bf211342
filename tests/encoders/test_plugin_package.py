"""Another author's encoder: a package of its own, built and installed, listed without being imported, and used.

And packages that are broken: whatever their import raises, slotrag goes on and says so in one sentence.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from slotrag.encoders import registry
from slotrag.encoders.errors import EncoderUnavailable

SOURCE = Path(__file__).parents[1] / "support" / "example_plugin"

BROKEN = {
    "import": ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
    "value": ("raise ValueError('first line\\nsecond line')", "ValueError: first line"),
    "exit": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "syntax": ("def broken(:", "SyntaxError"),
    "own": ("class Odd(BaseException): pass\nraise Odd", "Odd"),
    "recursion": ("def f(): f()\nf()", "RecursionError"),
    "nothing": ("pass", "AttributeError"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that building writes nothing into the checkout."""
    copy = tmp_path_factory.mktemp("project") / "slotrag-trigrams"
    return Path(shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture(scope="module")
def installed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into, by pip and without network."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    result = subprocess.run([*command, "--target", target, project], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target


def slotrag(*arguments: str | Path, path: Path, code: int = 0, **environment: str) -> tuple[str, str]:
    """Run the program with a folder of packages on its path; stdout and stderr."""
    result = subprocess.run(
        [sys.executable, "-c", "from slotrag.tui.cli import main; main()", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(path), "SLOTRAG_OFFLINE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout, result.stderr


def test_it_is_listed_without_being_imported(installed: Path) -> None:
    program = (
        "import sys\n"
        "from slotrag.tui.cli import run\n"
        "assert run(['encoders', 'list']) == 0\n"
        "print('slotrag_trigrams' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    names = result.stdout.split()
    assert "trigrams" in names and names[-1] == "False"


def test_it_indexes_and_searches_by_its_name(installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "boiler.txt").write_text("The boiler is serviced in September.")
    (folder / "music.txt").write_text("Music must end at eleven.")
    out, _ = slotrag("index", folder, "--encoder", "trigrams:dimension=64", "--json", path=installed)
    assert json.loads(out)["new"] == 2
    out, _ = slotrag("search", "boilers servicing", "--mode", "dense", "-k", "1", "--json", path=installed)
    (found,) = json.loads(out)["results"]
    assert found["path"].endswith("boiler.txt")
    (listed,) = json.loads(slotrag("collections", "--json", path=installed)[0])["collections"]
    assert listed["encoder"] == "trigrams:dimension=64"


def test_a_library_says_when_its_encoder_is_gone(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The boiler is serviced in September.")
    slotrag("index", tmp_path / "a.txt", "--encoder", "trigrams", path=installed)
    _, err = slotrag("search", "boiler", "--mode", "dense", path=tmp_path, code=2)
    assert "there is no encoder 'trigrams'" in err and err.count("\n") == 1
    assert "trigrams" in slotrag("status", path=tmp_path)[0]


def test_it_passes_the_conformance_suite_in_its_own_tests(installed: Path, project: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", project, project / "tests"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout and "failed" not in result.stdout


def write_broken(folder: Path, content: str) -> Path:
    (folder / "broken_package.py").write_text(content + "\n")
    information = folder / "broken_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[slotrag.encoders]\nbroken = broken_package:Broken\n")
    return folder


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_broken_import_is_reported(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models) -> None:
    content, reason = BROKEN[kind]
    monkeypatch.syspath_prepend(str(write_broken(tmp_path, content)))
    monkeypatch.delitem(sys.modules, "broken_package", raising=False)
    assert {"broken", "mean"} <= set(registry.names())
    with pytest.raises(EncoderUnavailable) as caught:
        registry.create("broken", models)
    message = str(caught.value)
    assert "'broken' cannot be loaded from broken-package 1.0" in message and reason in message
    assert "\n" not in message


def test_an_interrupt_during_the_import_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models) -> None:
    monkeypatch.syspath_prepend(str(write_broken(tmp_path, "raise KeyboardInterrupt")))
    monkeypatch.delitem(sys.modules, "broken_package", raising=False)
    with pytest.raises(KeyboardInterrupt):
        registry.create("broken", models)


def test_a_broken_package_takes_nothing_down(installed: Path, tmp_path: Path) -> None:
    folder = write_broken(tmp_path, "import sys; sys.exit('gone')")
    both = Path(f"{folder}{os.pathsep}{installed}")
    names = slotrag("encoders", "list", path=both)[0].split()
    assert {"broken", "trigrams", "mean"} <= set(names)
    _, err = slotrag("encoders", "fingerprint", "broken", path=both, code=1)
    assert err.startswith("slotrag: the encoder 'broken' cannot be loaded from broken-package 1.0 (SystemExit: gone)")
    assert err.count("\n") == 1
    (tmp_path / "a.txt").write_text("Nothing much.")
    slotrag("index", tmp_path / "a.txt", "--encoder", "trigrams", path=both)
