"""A library over a small folder, one built from scratch beside it, and a count of what is encoded."""

import pytest
from edited_folder import FILES, QUERIES
from libraries import assert_same, open_library, write


@pytest.fixture
def docs(tmp_path):
    return write(tmp_path / "docs", FILES)


@pytest.fixture
def library(tmp_path, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        yield library


@pytest.fixture
def fresh(tmp_path, hashing_encoder):
    """Checks a library against one built from scratch."""
    made = []

    def check(library, *folders):
        with open_library(tmp_path / f"fresh-{len(made)}") as other:
            made.append(other)
            other.index(folders)
            assert_same(library, other, QUERIES)

    return check


@pytest.fixture
def calls(hashing_encoder):
    """Number of texts encoded since it was last asked."""
    from importlib.metadata import entry_points

    (point,) = entry_points(group="slotrag.encoders", name="hashing")
    encoder = point.load()
    encoder.calls = 0

    def since():
        count, encoder.calls = encoder.calls, 0
        return count

    return since
