"""Collections and what they are bound to: the encoder, the splitting, a name."""

import pytest
from edited_folder import counts
from libraries import open_library, passages
from slotrag import UsageError
from slotrag.rag.errors import FingerprintMismatch


def test_another_encoder_is_refused_with_both_fingerprints_and_the_command(library, docs):
    library.index([docs])
    before = passages(library)
    with pytest.raises(FingerprintMismatch) as caught:
        library.index([docs], encoder="hashing:seed=1")
    stored = library.collections()[0].fingerprint
    message = str(caught.value)
    assert stored in message and "slotrag rebuild --collection default --encoder hashing:seed=1" in message
    assert len({word for word in message.replace(")", " ").split() if len(word) == 64}) == 2
    assert passages(library) == before
    library.index([docs], encoder="hashing")


def test_another_splitting_is_refused(library, docs, tmp_path):
    library.index([docs])
    library.close()
    with open_library(tmp_path / "library", passage_tokens=50) as other:
        with pytest.raises(FingerprintMismatch, match="slotrag rebuild --collection default"):
            other.index()
        assert other.search("bridge").hits
        assert other.rebuild().passages > 0
        assert counts(other.index()) == {"unchanged": 4}


def test_an_encoder_that_changed_under_its_name_is_refused(library, docs, monkeypatch):
    library.index([docs])
    encoder = library._shared().shelf.get("hashing")
    monkeypatch.setattr(encoder, "fingerprint", "f" * 64)
    with pytest.raises(FingerprintMismatch, match="f" * 64):
        library.search("bridge")
    with pytest.raises(FingerprintMismatch, match="f" * 64):
        library.index()
    assert library.search("bridge", mode="lexical").hits


@pytest.mark.parametrize("name", ["", " x", ".rebuild-1", "a\nb", "x" * 101])
def test_names_that_no_collection_can_have(library, docs, name):
    with pytest.raises(UsageError):
        library.index([docs], collection=name)


def test_several_collections(library, docs):
    library.index([docs], collection="one")
    library.index([docs / "metals"], collection="둘", encoder="hashing:dimension=32")
    assert [(c.name, c.is_default, c.dimension) for c in library.collections()] == [
        ("one", True, 64),
        ("둘", False, 32),
    ]
    assert {h.collection for h in library.search("tin", collection="둘").hits} == {"둘"}
    assert counts(library.index()) == {"unchanged": 4}
