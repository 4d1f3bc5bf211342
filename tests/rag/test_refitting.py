"""A collection's post-processing: changed without encoding, whole after a kill, the same for passages and queries."""

import random
import shutil
import sqlite3

import numpy as np
import pytest
from libraries import open_library, passages, results, write
from slotrag import SlotragError, UsageError
from slotrag.encoders.postprocessing_fit import fit
from slotrag.rag.events import Cancelled, CancelToken
from slotrag.rag.postprocessing import PostprocessingLost, suggested
from slotrag.storage import Catalog

WORDS = [
    "metal",
    "copper",
    "tin",
    "iron",
    "bridge",
    "river",
    "note",
    "plate",
    "wing",
    "flow",
    "heat",
    "water",
    "rain",
    "coal",
]
QUERIES = ["copper bridge over the river", "heat flow", "paper note 7"]
COUNT = 130


def texts(count=COUNT, seed=0):
    random_words = random.Random(seed)
    return {f"{n}.txt": f"Note {n} says " + " ".join(random_words.choices(WORDS, k=12)) + "." for n in range(count)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Documents, and a closed library over them that tests copy."""
    folder = tmp_path_factory.mktemp("made")
    return write(folder / "docs", texts()), folder / "library"


@pytest.fixture
def docs(made):
    return made[0]


@pytest.fixture
def folder(made, tmp_path, hashing_encoder):
    """The folder of a library over the documents."""
    docs, whole = made
    if not whole.exists():
        with open_library(whole) as library:
            library.index([docs])
    shutil.copytree(whole, tmp_path / "library")
    return tmp_path / "library"


@pytest.fixture
def library(folder):
    with open_library(folder) as library:
        yield library


def raw(library, collection=None):
    """Ids and stored vectors of a collection."""
    record = library._catalog.collection(collection)
    found = list(library._catalog.vectors(record.id))
    return np.concatenate([ids for ids, _ in found]), np.concatenate([vectors for _, vectors in found])


def dense(library, query, k=1000, **options):
    return {hit.path: hit.dense for hit in library.search(query, k=k, mode="dense", **options).hits}


def index_files(library):
    return sorted(path.name for path in library.folder.glob("*.index*"))


def problems(library):
    return [finding for finding in library.doctor() if finding.severity != "ok" and finding.check != "models"]


def calls():
    """Texts that the encoder was given as documents so far."""
    import slotrag_hashing

    return slotrag_hashing.HashingEncoder.calls


@pytest.fixture
def suggesting(hashing_encoder, monkeypatch):
    """Lets the hashing encoder bring statistics along, and a made-up unembedding matrix."""
    import slotrag_hashing

    class Suggesting(slotrag_hashing.HashingEncoder):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            words = [f"{one} {other}" for one in WORDS for other in WORDS]
            self.postprocessing = fit("mean+top=1", [self._encode(words)])

        def unembedding(self):
            return np.random.default_rng(0).standard_normal((300, self.dimension)).astype(np.float32)

    monkeypatch.setattr(slotrag_hashing, "HashingEncoder", Suggesting)


@pytest.mark.parametrize("steps", ["mean", "mean+top=3", "whiten=16", "top=1"])
def test_cosines_are_those_of_the_post_processed_vectors(library, steps):
    """Worked out from the stored vectors by hand, for passages and query alike."""
    library.rebuild(postprocessing=steps)
    ids, vectors = raw(library)
    done = fit(steps, [vectors])
    names = {record.id: record.path for record in library._catalog.passages(ids.tolist())}
    for query in QUERIES:
        asked = library._shared().shelf.get("hashing").encode_queries([query])
        expected = dict(zip(ids.tolist(), (done.apply(vectors) @ done.apply(asked)[0]).tolist(), strict=True))
        found = dense(library, query)
        assert found == pytest.approx({names[number]: score for number, score in expected.items()}, abs=1e-4)


def test_the_same_as_a_fresh_library_under_the_same_statistics(library, docs, tmp_path):
    library.rebuild(postprocessing="mean+whiten=24")
    own = library._shared().keeper.postprocessings.of(library._catalog.collection())
    with open_library(tmp_path / "fresh") as fresh:
        fresh.index([docs])
        fresh.rebuild(postprocessing="mean+whiten=24")
        assert fresh._shared().keeper.postprocessings.of(fresh._catalog.collection()) == own
        for query in QUERIES:
            for mode in ("dense", "lexical", "hybrid"):
                assert results(library, query, mode) == results(fresh, query, mode)
        assert library.collections()[0].noise_level == pytest.approx(fresh.collections()[0].noise_level, abs=1e-6)


def test_nothing_is_encoded_for_a_change(library):
    before, encoded = passages(library), calls()
    for steps in ("mean", "whiten=8", "none", "mean+top=2"):
        report = library.rebuild(postprocessing=steps)
        assert report.postprocessing == steps == library.collections()[0].postprocessing
        assert (report.encoded, report.passages) == (0, COUNT)
        assert library.collections()[0].index_state == "current" and len(index_files(library)) == 1
        assert problems(library) == []
    assert calls() == encoded and passages(library) == before


def test_to_none_and_back_is_as_it_was(library):
    before = {query: results(library, query, "dense") for query in QUERIES}
    level = library.collections()[0].noise_level
    library.rebuild(postprocessing="whiten=8")
    assert {query: results(library, query, "dense") for query in QUERIES} != before
    assert library.collections()[0].noise_level != level
    library.rebuild(postprocessing="none")
    assert {query: results(library, query, "dense") for query in QUERIES} == before
    assert library.collections()[0].noise_level == pytest.approx(level, abs=1e-6)


def test_an_open_reader_goes_over_to_the_new_one_without_a_word(folder):
    with open_library(folder) as reader, open_library(folder) as writer:
        for steps in ("mean", "whiten=8", "none", "mean"):
            reader.search(QUERIES[0])
            writer.rebuild(postprocessing=steps)
            assert reader.search(QUERIES[0]).notices == []
            assert dense(reader, QUERIES[0]) == pytest.approx(dense(writer, QUERIES[0]), abs=1e-6)


def test_a_reader_with_the_record_of_a_moment_ago_gets_the_answers_of_then(folder):
    with open_library(folder) as reader, open_library(folder) as writer:
        old = reader._catalog.collection()
        expected = dense(reader, QUERIES[0])
        writer.rebuild(postprocessing="whiten=8")
        reader._shared().keeper.forget(old.id)
        request = reader._request(QUERIES[0], 1000, "dense", None, None, None, False)
        found = reader._retriever().retrieve(request, [old]).hits
        assert {hit.path: hit.dense for hit in found} == pytest.approx(expected, abs=1e-6)
        assert len(index_files(writer)) == 1


def test_every_side_of_a_search_compares_the_same_vectors(library):
    """Cosines that the index did not give, a threshold and spreading are of the post-processed vectors too."""
    library.rebuild(postprocessing="whiten=16")
    for query in QUERIES:
        known = dense(library, query)
        for hit in library.search(query, k=8, explain=True).hits:
            assert hit.explanation["cosine"] == pytest.approx(known[hit.path], abs=1e-5)
        least = sorted(known.values())[-20]
        kept = library.search(query, k=100, mode="lexical", min_score=least).hits
        assert kept and all(known[hit.path] >= least - 1e-6 for hit in kept)
        assert len(library.search(query, k=5, diversity=0.6).hits) == 5


def test_the_encoder_that_cites_gives_what_is_compared(library):
    library.rebuild(postprocessing="whiten=16")
    encoder = library._shared().encoder(library._catalog.collection())
    assert encoder.dimension == 16 and encoder.encode_documents(QUERIES).shape == (3, 16)
    assert encoder.fingerprint != library.collections()[0].fingerprint
    assert encoder.token_offsets("two words") == [(0, 3), (4, 9)]


def test_indexing_and_removing_leave_the_statistics(library, docs, tmp_path):
    library.rebuild(postprocessing="mean+top=2")
    keeper, record = library._shared().keeper, library._catalog.collection()
    before = keeper.postprocessings.of(record)
    more = write(tmp_path / "more", {f"new{n}.txt": f"Penguins {n} eat fish and copper." for n in range(5)})
    library.index([more])
    assert dense(library, "penguins 3 eat fish")["new3.txt"] > 0.5
    library.remove(docs / "3.txt")
    assert "3.txt" not in dense(library, QUERIES[0])
    with open_library(library.folder) as again:
        now = again._catalog.collection()
        assert now.postprocessing == record.postprocessing
        assert again._shared().keeper.postprocessings.of(now) == before
        assert problems(again) == [] and again.search(QUERIES[0]).notices == []


def test_a_full_rebuild_fits_anew(library, docs, tmp_path):
    library.rebuild(postprocessing="mean+top=2")
    before = library._shared().keeper.postprocessings.of(library._catalog.collection())
    library.index([write(tmp_path / "more", {f"new{n}.txt": f"Penguins {n} eat fish." for n in range(20)})])
    assert library.rebuild().encoded == 0
    status = library.collections()[0]
    assert (status.postprocessing, status.postprocessing_fitted_on) == ("mean+top=2", COUNT + 20)
    now = library._shared().keeper.postprocessings.of(library._catalog.collection())
    assert now != before and now == fit("mean+top=2", [raw(library)[1]])
    library.rebuild(encoder="hashing:dimension=32", postprocessing="whiten=8")
    status = library.collections()[0]
    assert (status.dimension, status.postprocessing) == (32, "whiten=8")
    report = library.rebuild(encoder="hashing:dimension=4")
    assert library.collections()[0].postprocessing == "none" and "whiten=8 was left out" in report.notices[-1]


@pytest.mark.parametrize(
    "steps, message", [("whiten=65", "choose whiten=64"), ("top=64", "choose top=63"), ("embedfilter", "unembedding"),
                       ("sharpen", "no post-processing step")],
)  # fmt: skip
@pytest.mark.parametrize("encoder", [None, "hashing:seed=1"])
def test_what_is_not_possible_is_refused_and_changes_nothing(library, steps, message, encoder):
    before, encoded = dense(library, QUERIES[0]), calls()
    with pytest.raises(UsageError, match=message) as caught:
        library.rebuild(encoder=encoder, postprocessing=steps)
    assert "\n" not in str(caught.value)
    assert calls() == encoded and dense(library, QUERIES[0]) == before
    assert len(library._catalog.collections()) == 1 and problems(library) == []


def test_whitening_to_more_than_the_passages_is_refused(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library", encoder="hashing:dimension=256") as library:
        library.index([docs])
        with pytest.raises(UsageError, match=r"'whiten=200' is too much for 130 vectors"):
            library.rebuild(postprocessing="whiten=200")


@pytest.mark.parametrize("step", ["prepare", "written", "committed"])
def test_a_break_between_the_steps_leaves_one_of_the_two_whole(folder, monkeypatch, step):
    from slotrag.rag.vectors import IndexKeeper

    class Killed(BaseException):
        pass

    def kill(*_, **__):
        raise Killed

    with open_library(folder) as library:
        library.rebuild(postprocessing="mean")
        old = dense(library, QUERIES[0])
        target, name = {
            "prepare": (IndexKeeper, "_write"), "written": (Catalog, "set_postprocessing"),
            "committed": (IndexKeeper, "adopt"),
        }[step]  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(target, name, kill)
            with pytest.raises(Killed):
                library.rebuild(postprocessing="whiten=8")
        alive = dense(library, QUERIES[0])
    with open_library(folder) as library:
        found = library.search(QUERIES[0], k=1000, mode="dense")
        assert found.notices == []
        status = library.collections()[0]
        assert status.postprocessing == ("whiten=8" if step == "committed" else "mean")
        assert dense(library, QUERIES[0]) == pytest.approx(alive, abs=1e-6)
        if step != "committed":
            assert dense(library, QUERIES[0]) == pytest.approx(old, abs=1e-6)
        library.rebuild(postprocessing="whiten=8")
        library.doctor(fix=True)
        assert problems(library) == [] and len(index_files(library)) == 1
        assert fit("whiten=8", [raw(library)[1]]) == library._shared().keeper.postprocessings.of(
            library._catalog.collection()
        )


def test_cancelled_while_fitting(library):
    cancel = CancelToken()
    before = dense(library, QUERIES[0])
    with pytest.raises(Cancelled):
        library.rebuild(postprocessing="mean", cancel=cancel, progress=lambda event: cancel.cancel())
    assert dense(library, QUERIES[0]) == before and library.collections()[0].postprocessing == "none"


@pytest.mark.parametrize("damage", ["remove", "garbage", "empty", "another size", "other steps"])
def test_lost_statistics_are_told_and_fitted_anew(folder, damage):
    with open_library(folder) as library:
        library.rebuild(postprocessing="mean+top=1")
        expected = dense(library, QUERIES[0])
    other = fit("mean+top=1", [np.eye(8, 5)]) if damage == "another size" else fit("mean", [np.eye(8, 64)])
    data = {"garbage": b"garbage", "empty": b""}.get(damage, other.to_bytes())
    with sqlite3.connect(folder / "library.db") as connection:
        if damage == "remove":
            connection.execute("DELETE FROM postprocessings")
        else:
            connection.execute("UPDATE postprocessings SET statistics = ?", (data,))
    connection.close()
    with open_library(folder) as library:
        with pytest.raises(PostprocessingLost, match="doctor --fix"):
            library.search(QUERIES[0])
        assert any(finding.check == "postprocessing" and finding.severity == "error" for finding in library.doctor())
        assert any(finding.check == "postprocessing" and finding.fixed for finding in library.doctor(fix=True))
        assert problems(library) == []
        kept = damage != "remove"
        assert library.collections()[0].postprocessing == ("mean+top=1" if kept else "none")
        assert (dense(library, QUERIES[0]) == pytest.approx(expected, abs=1e-5)) is kept


def test_an_index_file_of_another_setting_is_not_searched(folder):
    with open_library(folder) as library:
        library.rebuild(postprocessing="mean")
        (first,) = library.folder.glob("*.index")
        kept = first.read_bytes()
        library.rebuild(postprocessing="top=3")
        (second,) = library.folder.glob("*.index")
        expected = dense(library, QUERIES[0])
    second.write_bytes(kept)
    with open_library(folder) as library:
        assert library.collections()[0].index_state == "behind"
        assert any("another post-processing" in notice for notice in library.search(QUERIES[0]).notices)
        assert dense(library, QUERIES[0]) == pytest.approx(expected, abs=1e-6)


def test_a_read_only_library_is_searched_and_not_changed(folder, monkeypatch):
    import os

    with open_library(folder) as library:
        library.rebuild(postprocessing="whiten=8")
        expected = dense(library, QUERIES[0])
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **k: False if mode & os.W_OK else real(path, mode, **k))
    with open_library(folder) as library:
        assert library.read_only and dense(library, QUERIES[0]) == pytest.approx(expected, abs=1e-6)
        with pytest.raises(SlotragError):
            library.rebuild(postprocessing="none")
        assert library.collections()[0].postprocessing == "whiten=8"
        next(folder.glob("*.index")).unlink()
    with open_library(folder) as library:
        assert dense(library, QUERIES[0]) == pytest.approx(expected, abs=1e-6)


def test_two_collections_with_and_without_are_fused(library, docs, tmp_path):
    write(tmp_path / "other", {f"p{n}.txt": f"Penguin {n} swims and eats copper fish." for n in range(110)})
    library.index([tmp_path / "other"], collection="birds")
    plain = dense(library, QUERIES[0], collection="default")
    library.rebuild("birds", postprocessing="mean+whiten=4")
    assert dense(library, QUERIES[0], collection="default") == plain
    assert {c.name: c.postprocessing for c in library.collections()} == {"default": "none", "birds": "mean+whiten=4"}
    found = library.search("penguin 7 swims by the copper bridge", k=20).hits
    assert {hit.collection for hit in found} == {"default", "birds"} and {hit.score_kind for hit in found} == {"rrf"}


def test_few_passages_have_no_statistics_of_their_own(tmp_path, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([write(tmp_path / "docs", texts(99))])
        report = library.rebuild(postprocessing="mean")
        assert "99 passages are too few" in report.notices[0] and report.postprocessing == "none"
        library.index([write(tmp_path / "more", {"one.txt": "One more note."})])
        assert library.rebuild(postprocessing="mean").notices == []
        assert library.collections()[0].postprocessing_fitted_on == 100


def test_what_too_few_passages_do_not_allow_leaves_what_there_was(tmp_path, hashing_encoder):
    docs = write(tmp_path / "docs", texts(120))
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        library.rebuild(postprocessing="whiten=8")
        library.remove(docs)
        report = library.rebuild(postprocessing="mean")
        assert report.notices[-1] == "The post-processing stays whiten=8." and report.postprocessing == "whiten=8"
        assert library.collections()[0].postprocessing == "whiten=8"


def test_a_new_collection_takes_what_the_encoder_brings_along(tmp_path, suggesting):
    with open_library(tmp_path / "library") as library:
        library.index([write(tmp_path / "docs", texts(20))])
        encoder = library._shared().shelf.get("hashing")
        status = library.collections()[0]
        own = suggested(encoder)
        assert (status.postprocessing, status.postprocessing_origin) == ("mean+top=1", "encoder")
        assert library._shared().keeper.postprocessings.of(library._catalog.collection()) == own
        _, vectors = raw(library)
        asked = own.apply(encoder.encode_queries(QUERIES[:1]))[0]
        assert sorted(dense(library, QUERIES[0]).values()) == pytest.approx(
            sorted(own.apply(vectors) @ asked), abs=1e-5
        )
        library.rebuild()
        assert library.collections()[0].postprocessing_origin == "encoder", "20 passages are too few for their own"
        library.index([write(tmp_path / "more", texts(110, seed=1))])
        assert library.collections()[0].postprocessing_origin == "encoder", "an indexing run does not refit"
        library.rebuild(postprocessing="mean+top=1")
        status = library.collections()[0]
        assert (status.postprocessing_origin, status.postprocessing_fitted_on) == ("collection", status.passages)


def test_the_unembedding_is_taken_from_the_encoder(tmp_path, suggesting):
    with open_library(tmp_path / "library") as library:
        library.index([write(tmp_path / "docs", texts(12))])
        assert library.rebuild(postprocessing="embedfilter=20").notices == []
        status = library.collections()[0]
        assert (status.postprocessing, status.postprocessing_fitted_on) == ("embedfilter=20", 0)
        matrix = library._shared().shelf.get("hashing").unembedding()
        expected = fit("embedfilter=20", (), unembedding=matrix)
        assert library._shared().keeper.postprocessings.of(library._catalog.collection()) == expected


def test_statistics_of_another_size_are_refused(library):
    encoder = library._shared().shelf.get("hashing:dimension=8")
    encoder.postprocessing = fit("mean", [np.eye(5)])
    with pytest.raises(SlotragError, match="5 dimensions"):
        suggested(encoder)


def test_removing_a_collection_takes_its_statistics(library):
    library.rebuild(postprocessing="mean")
    old = library._catalog.collection()
    library.rebuild()
    assert library._catalog.collection().id != old.id
    assert library._catalog.postprocessing(old.id, old.postprocessing) is None
