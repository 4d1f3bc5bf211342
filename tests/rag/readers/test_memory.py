"""Peak memory of reading: not growing with the pages of a PDF; what is too large is refused before it is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from file_kinds import write_kind

SCRIPT = """
import sys
from pathlib import Path
from slotrag.rag.documents import ReadError
from slotrag.rag.readers import read
try:
    document = read(Path(sys.argv[1]))
    print(len(document.page_starts), document.page_at(document.text.index("marked place")))
except ReadError as error:
    print(error.reason)
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")


def read_alone(path: Path) -> tuple[str, int]:
    """What a process of its own says of `path`, and its peak memory in KiB."""
    command = [sys.executable, "-c", SCRIPT, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return found[0], int(found[1])


def write_pages(path: Path, pages: int) -> Path:
    body = [f"Line {row} tells of the boiler that is serviced in September by the landlord." for row in range(18)]
    sections = [(f"Chapter {page}", [*body, "A marked place."] if page == pages - 2 else body) for page in range(pages)]
    return write_kind(path, sections)


@pytest.mark.slow
def test_the_peak_does_not_grow_with_a_pdfs_pages(tmp_path: Path) -> None:
    said, small = read_alone(write_pages(tmp_path / "small.pdf", 20))
    assert said == "20 19"
    said, large = read_alone(write_pages(tmp_path / "large.pdf", 500))
    assert said == "500 499"
    assert large - small < 40_000  # the text of 480 pages is 1.4 MB, kept as lines, blocks and one string


@pytest.mark.parametrize("name", ["a.html", "a.csv"])
def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as stream:
        stream.write(b"The boiler is serviced in September.\n" * 300)
        stream.truncate(1_000_000_000)
    said, peak = read_alone(path)
    small = tmp_path / f"small-{name}"
    small.write_text("The marked place of the boiler. " * 10)
    assert said == "larger than 100 MB: split it into smaller files"
    assert peak - read_alone(small)[1] < 20_000
