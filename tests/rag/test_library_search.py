"""Searching: what comes back for any query and option, and from several collections."""

import math
import random
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from libraries import open_library, write
from slotrag import UsageError
from slotrag.rag.query import clean_query
from slotrag.storage.errors import LibraryMissing

FILES = {
    "bridges.md": "# Bridges\n\nThe old bridge was built in 1873 by Anna Keller.\n\n## Repairs\n\nRepaired in 1950.\n",
    "penguins.txt": "Penguins live in the south and eat fish.\n",
    "metals/copper.txt": "Copper melts at 1085 degrees.",
    "metals/tin.txt": "Tin melts at 232 degrees.",
    "metals/lead.txt": "Lead melts at 328 degrees.",
    "한국어/도서관.txt": "도서관은 아침 아홉 시에 문을 연다. 회원은 책을 다섯 권까지 빌릴 수 있다.",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory, hashing_encoder):
    root = tmp_path_factory.mktemp("search")
    with open_library(root / "library") as library:
        library.index([write(root / "docs", FILES)])
        yield library


@pytest.mark.parametrize(
    "query", ["", "  \n\t", "\u200b", "\ufeff \u2060", "\u3164", "?!...", "***", '"', "—", "$$", "\0"]
)
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_a_query_without_a_word_is_an_error_in_one_sentence(library, query, mode):
    with pytest.raises(UsageError, match="type a word"):
        library.search(query, mode=mode)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_k(library, k):
    if k is None:
        assert len(library.search("melts", k=None).hits) == 5
    else:
        with pytest.raises(UsageError, match="at least 1"):
            library.search("melts", k=k)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "fuzzy"}, {"diversity": -0.1}, {"diversity": 2}, {"diversity": math.nan}, {"min_score": math.nan},
        {"min_score": 5}, {"min_score": -1.01},
        {"collection": "none"}, {"collection": ".rebuild-1"}, {"path": " "},
    ],
)  # fmt: skip
def test_options_out_of_range(library, options):
    with pytest.raises(UsageError):
        library.search("melts", **options)


def test_an_unknown_option_is_an_error(library):
    with pytest.raises(TypeError):
        library.search("melts", min_scores=1)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("k", [1, 3, 1000, 10**9])
def test_there_are_no_padding_entries(library, mode, k):
    hits = library.search("copper melts", k=k, mode=mode).hits
    assert 0 < len(hits) <= min(k, 7)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert len({hit.passage_id for hit in hits}) == len(hits)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True) and all(map(math.isfinite, scores))
    assert {hit.score_kind for hit in hits} == {{"hybrid": "rrf", "dense": "cosine", "lexical": "bm25"}[mode]}


def test_both_scores_are_given_where_both_sides_found_it(library):
    hit = library.search("penguins eat fish").hits[0]
    assert hit.path == "penguins.txt" and -1 <= hit.dense <= 1.001 and hit.lexical > 0
    assert library.search("penguins", mode="dense").hits[0].lexical is None
    assert library.search("penguins", mode="lexical").hits[0].dense is None


WEIRD = st.text(min_size=1, max_size=40) | st.lists(
    st.sampled_from(
        ['"', "*", "(", ")", ":", "^", "-", "AND", "OR", "NOT", "NEAR(", "melts", "DROP TABLE", "'", ";", "--"]
    ),
    min_size=1,
).map(" ".join)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(WEIRD, st.sampled_from(["hybrid", "dense", "lexical"]))
def test_any_text_is_plain_text(library, query, mode):
    try:
        hits = library.search(query, mode=mode).hits
    except UsageError:
        return
    assert all(math.isfinite(hit.score) for hit in hits)


@given(st.text(max_size=30))
def test_a_clean_query_is_what_it_was_cleaned_to(text):
    try:
        clean = clean_query(text)
    except UsageError:
        return
    assert clean == clean_query(clean) and clean.encode()


@pytest.mark.parametrize(
    "query", ["copper:melts", 'copper "melts', "copper AND NOT melts", "NEAR(copper melts)", "copper*"]
)
def test_query_syntax_means_nothing(library, query):
    assert library.search(query, mode="lexical").hits[0].path == "metals/copper.txt"


@pytest.mark.parametrize("query", ["도서관에서", "도서관", "책을 빌리다", "회원은책을다섯권"])
def test_korean_with_other_particles_and_without_spaces(library, query):
    assert library.search(query, mode="lexical").hits[0].path == "한국어/도서관.txt"


def test_path_filters(library):
    assert {h.path for h in library.search("melts", path="metals/*").hits} == {
        "metals/copper.txt", "metals/tin.txt", "metals/lead.txt"
    }  # fmt: skip
    assert [h.path for h in library.search("melts", path="penguins.txt").hits] == ["penguins.txt"]
    assert [h.path for h in library.search("도서관", path="한국어").hits] == ["한국어/도서관.txt"]
    assert library.search("melts", path="*.pdf").hits == []


def test_a_filter_that_leaves_one_of_ten_thousand(tmp_path, hashing_encoder):
    # One file with many sections and one that fits the query worst of all.
    big = "\n\n".join(f"## Part {n}\n\nThe copper of item {n} melts slowly." for n in range(10_000))
    docs = write(tmp_path / "docs", {"big.md": big, "needle.txt": "Nothing to do with it."})
    with open_library(tmp_path / "library") as library:
        assert library.index([docs]).passages == 10_001
        for mode in ("hybrid", "dense"):
            assert [h.path for h in library.search("copper melts", path="needle.txt", mode=mode).hits] == ["needle.txt"]
        assert [h.path for h in library.search("nothing", path="needle.txt", mode="lexical").hits] == ["needle.txt"]
        assert library.search("copper melts slowly item 77", k=3).hits[0].heading == "Part 77"


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_min_score_is_the_cosine_at_or_above(library, mode):
    every = {h.passage_id: h.dense for h in library.search("copper melts degrees", k=100, mode="dense").hits}
    threshold = sorted(every.values())[len(every) // 2]
    hits = library.search("copper melts degrees", k=100, mode=mode, min_score=threshold).hits
    assert hits and all(every[h.passage_id] >= threshold - 1e-6 for h in hits)
    if mode != "lexical":
        assert {h.passage_id for h in hits} == {key for key, cosine in every.items() if cosine >= threshold}
    assert library.search("copper melts", mode=mode, min_score=1).hits == []


def test_near_identical_passages_are_one_result(tmp_path, hashing_encoder):
    text = (
        "Members pay the yearly fee of 100 won before the end of May and get a card that opens the door of the house."
    )
    files = {f"copy{n}.txt": text + " " * n + "." * (n % 2) for n in range(8)}
    files |= {"other.txt": "The fee for guests is 20 won.", "newer.txt": text.replace("100", "150")}
    docs = write(tmp_path / "docs", files)
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        for mode in ("hybrid", "dense", "lexical"):
            hits = library.search("yearly fee of members", k=3, mode=mode).hits
            assert len(hits) == 3 and len({hit.text[:60] for hit in hits}) >= 2
            first = next(hit for hit in hits if "100" in hit.text)
            assert len({first.absolute_path, *first.copies}) == 8
            assert any("150" in hit.text for hit in hits)


def test_a_passage_that_says_the_opposite_is_a_result_of_its_own(tmp_path, hashing_encoder):
    lease = "The tenant {} keep a dog or a cat in the flat as long as the neighbours agree to it and it is kept clean."
    docs = write(tmp_path / "docs", {"a.txt": lease.format("may"), "b.txt": lease.format("cannot")})
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        for mode in ("hybrid", "dense", "lexical"):
            hits = library.search("keep a dog", mode=mode).hits
            assert sorted((hit.path, hit.copies) for hit in hits) == [("a.txt", []), ("b.txt", [])]


def test_many_results_in_little_time(tmp_path, hashing_encoder):
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=5)) for _ in range(300)]
    files = {f"{n // 50}.md": "" for n in range(2500)}
    for n in range(2500):
        files[f"{n // 50}.md"] += f"# part\n\n{' '.join(rng.choices(words, k=185))}\n\n"
    with open_library(tmp_path / "library") as library:
        library.index([write(tmp_path / "docs", files)])
        library.search("warm up", k=1)
        started = time.process_time()
        assert len(library.search(" ".join(words[:5]), k=1000).hits) == 1000
        assert time.process_time() - started < 8


def test_diversity_zero_is_the_plain_order_and_more_spreads(library):
    plain = [h.passage_id for h in library.search("tin lead melts degrees", k=4).hits]
    assert plain == [h.passage_id for h in library.search("tin lead melts degrees", k=4, diversity=0).hits]
    spread = library.search("tin lead melts degrees", k=4, diversity=0.9).hits
    assert spread[0].passage_id == plain[0]
    assert sum(h.path.startswith("metals") for h in spread) < 3


def test_explanations_add_up(library):
    for hit in library.search("copper melts", explain=True).hits:
        told = hit.explanation
        assert hit.score == pytest.approx(told["dense_share"] + told["lexical_share"])
        assert told["cosine"] is not None and told["noise_level"] is not None
    assert all(hit.explanation == {} for hit in library.search("copper melts").hits)


def test_timings_are_split(library):
    timings = library.search("copper").timings_ms
    assert timings.keys() == {"encode", "faiss", "lexical", "database", "total"}
    assert timings["total"] >= max(timings.values()) and min(timings.values()) >= 0
    assert library.search("copper", mode="lexical").timings_ms["encode"] == 0


def test_several_collections_are_fused_by_rank(tmp_path, hashing_encoder):
    docs = write(tmp_path / "docs", FILES)
    with open_library(tmp_path / "library") as library:
        library.index([docs / "metals"], collection="metals")
        library.index([docs], collection="all", encoder="hashing:dimension=48", exclude=["metals"])
        hits = library.search("copper melts in the south with penguins", k=4).hits
        assert {hit.collection for hit in hits[:2]} == {"metals", "all"}
        assert {hit.score_kind for hit in hits} == {"rrf"}
        library.index([docs / "metals/copper.txt"], collection="third")
        hit = library.search("copper").hits[0]
        assert hit.path == "copper.txt" and hit.copies == []
        assert len([h for h in library.search("copper", k=50).hits if "Copper" in h.text]) == 1


def test_a_collection_that_has_nothing_on_it_does_not_stand_beside_one_that_has(tmp_path, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([write(tmp_path / "metals", {f"{n}.txt": f"Copper number {n} melts." for n in range(4)})])
        library.index([write(tmp_path / "birds", {"bird.txt": "Penguins eat fish."})], collection="birds")
        hits = library.search("copper melts", k=5).hits
        assert [hit.collection for hit in hits] == ["default"] * (len(hits) - 1) + ["birds"]
        assert hits[0].score == 1.0 and not hits[-1].relevant
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_an_empty_collection_gives_nothing(tmp_path, hashing_encoder):
    (tmp_path / "docs").mkdir()
    with open_library(tmp_path / "library") as library:
        with pytest.raises(UsageError, match="slotrag index"):
            library.search("anything")
        assert library.index([tmp_path / "docs"]).passages == 0
        assert library.search("anything").hits == []


def test_no_library(tmp_path):
    from slotrag.rag.library import Library

    with pytest.raises(LibraryMissing, match="slotrag index"):
        Library.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()


def test_many_threads_get_what_one_gets(library):
    queries = ["copper melts", "penguins", "old bridge", "도서관", "repaired 1950"] * 6
    expected = [[h.passage_id for h in library.search(q).hits] for q in queries]
    found: dict[int, list[int]] = {}

    def work(number):
        found[number] = [h.passage_id for h in library.search(queries[number]).hits]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(queries))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[n] for n in range(len(queries))] == expected


def test_a_passage_by_its_id(library):
    hit = library.search("penguins").hits[0]
    assert library.passage(hit.passage_id).text == hit.text
    from slotrag.rag.errors import PassageMissing

    with pytest.raises(PassageMissing):
        library.passage(10**9)


def test_dense_results_are_the_exact_nearest(library):
    encoder = library._shared().shelf.get("hashing")
    query = encoder.encode_queries(["copper and tin degrees"])[0]
    catalog = library._catalog
    record = catalog.collection()
    cosines = {}
    for ids, vectors in catalog.vectors(record.id):
        cosines |= dict(zip(ids.tolist(), (vectors @ query).tolist(), strict=True))
    hits = library.search("copper and tin degrees", k=100, mode="dense").hits
    assert {h.passage_id for h in hits} == set(cosines)
    np.testing.assert_allclose([h.dense for h in hits], sorted(cosines.values(), reverse=True), atol=1e-5)
