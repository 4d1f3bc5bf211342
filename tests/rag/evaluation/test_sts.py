"""Correlations against scipy's, their intervals, and the measurement over a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from slotrag import SlotragError, UsageError
from slotrag.encoders.estimates import bootstrap
from slotrag.encoders.registry import create
from slotrag.rag.evaluation.correlation import pearson, ranks, spearman
from slotrag.rag.evaluation.sts import evaluate_sts
from slotrag.rag.events import Cancelled, CancelToken, Progress

LINES = [
    ("the boiler is serviced in september", "the boiler is serviced in autumn", 4.5),
    ("music ends at eleven", "the music ends", 3.0),
    ("music ends at eleven", "a tram leaves", 0.0),
    ("red apples grow", "red apples grow", 5.0),
    ("green pears", "blue plums and green plums", 2.0),
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{s}\n" for a, b, s in LINES))
    return path


@pytest.mark.parametrize("seed", range(5))
def test_correlations_equal_scipys(seed: int) -> None:
    generator = np.random.default_rng(seed)
    a, b = generator.normal(size=60), generator.integers(0, 6, size=60).astype(float)  # b has many equal values
    a[:10] = a[10:20]
    assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-12)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)
    np.testing.assert_array_equal(ranks(b), stats.rankdata(b))


def test_a_constant_has_no_correlation() -> None:
    assert np.isnan(spearman(np.ones(4), np.arange(4)))


def test_interval_holds_the_value_and_narrows_with_more_items() -> None:
    generator = np.random.default_rng(0)

    def width(items: int) -> float:
        a = generator.normal(size=items)
        b = a + generator.normal(size=items)
        found = bootstrap(lambda places: pearson(a[places], b[places]), items)
        assert found.low < found.value < found.high
        assert found.value == pytest.approx(pearson(a, b))
        # Fisher's interval, which holds for normal values, is the yardstick.
        low, high = stats.pearsonr(a, b).confidence_interval()
        assert (found.low, found.high) == (pytest.approx(low, abs=0.06), pytest.approx(high, abs=0.06))
        return found.high - found.low

    assert width(1000) < 0.6 * width(200)


def test_scores_are_those_of_the_encoders_cosines(pairs: Path, hashing_encoder: str) -> None:
    found = evaluate_sts(pairs, encoder=hashing_encoder)
    encoder = create(hashing_encoder)
    left, right = (encoder.encode_documents([line[side] for line in LINES]) for side in (0, 1))
    cosines, gold = (left * right).sum(axis=1), [line[2] for line in LINES]
    assert found.scores["spearman"].value == pytest.approx(stats.spearmanr(cosines, gold).statistic)
    assert found.scores["pearson"].value == pytest.approx(stats.pearsonr(cosines, gold).statistic)
    assert (found.pairs, found.texts, found.dataset, found.postprocessing) == (5, 8, "pairs", "none")
    assert found.fingerprint == encoder.fingerprint
    assert evaluate_sts(pairs, encoder=encoder).scores == found.scores


def test_postprocessing_is_fitted_on_the_texts(tmp_path: Path, hashing_encoder: str) -> None:
    words = ["boiler", "music", "tram", "apple", "pear", "plum", "wing", "heat", "flow", "edge"]
    lines = [
        f"{a} {b}\t{a} {c}\t{(i * j) % 5}" for i, a in enumerate(words) for j, b in enumerate(words) for c in b[:1]
    ]
    path = tmp_path / "p.tsv"
    path.write_text("sentence1\tsentence2\tscore\n" + "\n".join(lines))
    plain = evaluate_sts(path, encoder=hashing_encoder)
    changed = evaluate_sts(path, encoder=hashing_encoder, postprocessing="mean+top=2")
    assert changed.postprocessing == "mean+top=2"
    assert changed.scores["spearman"].value != plain.scores["spearman"].value
    assert evaluate_sts(path, encoder=hashing_encoder, postprocessing="none").scores == plain.scores
    with pytest.raises(UsageError, match="no post-processing step"):
        evaluate_sts(path, encoder=hashing_encoder, postprocessing="nothing")


def test_an_encoders_own_postprocessing_is_taken(pairs: Path, hashing_encoder: str) -> None:
    from slotrag.encoders.postprocessing_fit import fit

    encoder = create(hashing_encoder)
    rows = encoder.encode_documents([f"{line[0]} {number}" for number in range(30) for line in LINES])
    encoder.postprocessing = fit("mean+top=1", [rows])  # type: ignore[attr-defined]
    own = evaluate_sts(pairs, encoder=encoder)
    assert own.postprocessing.startswith("mean+top=1")
    assert own.scores != evaluate_sts(pairs, encoder=encoder, postprocessing="none").scores


def test_sides(pairs: Path, models, tiny_model) -> None:
    spec = f"mean@({tiny_model('bert')}):query_prefix=(the wing: )"
    passage, query = (
        evaluate_sts(pairs, encoder=spec, models=models, encoded_as=side) for side in ("passage", "query")
    )
    assert passage.scores != query.scores
    assert passage.forward_seconds > 0
    with pytest.raises(UsageError, match="passage or query"):
        evaluate_sts(pairs, encoder=spec, models=models, encoded_as="both")


def test_one_cosine_for_all_is_said(tmp_path: Path, hashing_encoder: str) -> None:
    path = tmp_path / "p.tsv"
    path.write_text("sentence1\tsentence2\tscore\n" + "".join(f"same\tsame\t{number}\n" for number in range(5)))
    with pytest.raises(SlotragError, match="same cosine"):
        evaluate_sts(path, encoder=hashing_encoder)


def test_progress_and_cancellation(pairs: Path, hashing_encoder: str) -> None:
    reports: list[Progress] = []
    evaluate_sts(pairs, encoder=hashing_encoder, progress=reports.append)
    assert [report.stage for report in reports][:2] == ["load", "encode"]
    assert reports[-1].unit == "resamples"
    for wanted in ("encode", "evaluate"):
        token = CancelToken()

        def listen(report: Progress, wanted: str = wanted, token: CancelToken = token) -> None:
            if report.stage == wanted:
                token.cancel()

        with pytest.raises(Cancelled):
            evaluate_sts(pairs, encoder=hashing_encoder, progress=listen, cancel=token)
