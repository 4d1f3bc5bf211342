"""A library under geneol: killed and gone on, variants erased with their documents, kept for another encoder."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from libraries import assert_same, open_library, write
from slotrag.rag.events import Cancelled, CancelToken

SUPPORT = Path(__file__).parents[1] / "support"
MARKER = "zanzibarquux"

INDEX = """
import sys
from pathlib import Path
from libraries import open_library
from slotrag.encoders import variant_prompts, variant_writer
variant_prompts._CPU_ROWS = variant_writer._FIRST_ROWS = 2


def show(event):
    if "written" in event.message:
        print(event.message, flush=True)


with open_library(Path(sys.argv[1]), encoder=sys.argv[3]) as library:
    library.index([Path(sys.argv[2])], progress=show)
"""


@pytest.fixture
def spec(generator, hashing_encoder):
    return f"geneol:m=2,generator=({generator}),encoder=hashing,max_length=40"


@pytest.fixture
def docs(tmp_path):
    return write(tmp_path / "docs", {f"{n}.txt": f"Note {n} tells of topic {n * 7} and of copper." for n in range(9)})


def variants(library):
    with library._catalog._library.reading() as connection:
        return dict(connection.exec_driver_sql("SELECT key, texts FROM variants").all())


def test_killed_it_goes_on_where_it_was(tmp_path, docs, spec, plugin_path):
    path = os.pathsep.join(map(str, (SUPPORT, plugin_path)))
    process = subprocess.Popen(
        [sys.executable, "-c", INDEX, str(tmp_path / "library"), str(docs), spec],
        stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "SLOTRAG_CONFIG": str(tmp_path / "none.toml")},
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "2 of 18 variants written\n"
        assert process.stdout.readline() == "4 of 18 variants written\n"
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    with open_library(tmp_path / "library", encoder=spec) as library:
        kept = variants(library)
        assert 4 <= len(kept) < 18
        seen = []
        report = library.index([docs], progress=lambda event: seen.append(event.message))
        assert report.encoded == 9
        assert f"{18 - len(kept)} of {18 - len(kept)} variants written" in seen, "finished variants were written again"
        found = variants(library)
        assert len(found) == 18 and kept.items() <= found.items()
        with open_library(tmp_path / "fresh", encoder=spec) as fresh:
            fresh.index([docs])
            assert variants(fresh) == found
            assert_same(library, fresh, ["note about topic 21"])


def test_cancelled_within_a_batch(tmp_path, docs, spec, monkeypatch):
    from slotrag.encoders import variant_prompts, variant_writer

    monkeypatch.setattr(variant_prompts, "_CPU_ROWS", 2)
    monkeypatch.setattr(variant_writer, "_FIRST_ROWS", 2)
    cancel = CancelToken()
    with open_library(tmp_path / "library", encoder=spec) as library:
        started = time.monotonic()
        with pytest.raises(Cancelled):
            library.index([docs], cancel=cancel, progress=lambda event: "written" in event.message and cancel.cancel())
        assert len(variants(library)) == 2
        assert time.monotonic() - started < 60
        library.index([docs])
        assert len(variants(library)) == 18


def test_removed_with_the_document(tmp_path, docs, spec, monkeypatch):
    from slotrag.encoders import variant_prompts

    def marked(self, tasks, check):
        return {key: [f"{MARKER} {task.text}", ""] for key, task in tasks}

    monkeypatch.setattr(variant_prompts.Prompts, "write", marked)
    folder = tmp_path / "library"
    with open_library(folder, encoder=spec) as library:
        library.index([docs])
        assert any(MARKER.encode() + b" Note 4 " in file.read_bytes() for file in folder.iterdir())
        library.remove(docs / "4.txt")
        assert len(variants(library)) == 16
        assert not any(MARKER.encode() + b" Note 4 " in file.read_bytes() for file in folder.iterdir())
        (docs / "5.txt").write_text("Something else stands here.")
        library.index([docs])
        assert not any(MARKER.encode() + b" Note 5 " in file.read_bytes() for file in folder.iterdir())
        assert any(MARKER.encode() + b" Note 6 " in file.read_bytes() for file in folder.iterdir())


def test_another_encoder_takes_the_variants_that_are_there(tmp_path, docs, spec):
    with open_library(tmp_path / "library", encoder=spec) as library:
        library.index([docs])
        before, seen = variants(library), []
        other = spec.replace("encoder=hashing", "encoder=(hashing:seed=2)")
        library.rebuild(encoder=other, progress=lambda event: seen.append(event.message))
        assert not [message for message in seen if "written" in message]
        assert variants(library) == before
        (hit, *_) = library.search("Note 3 tells of topic 21 and of copper.", k=1).hits
        assert hit.path == "3.txt"
