"""How good retrieval is on a data set with known answers: dense, lexical and hybrid, by the code that searches run on.

It knows the form of no file and prints nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import UsageError
from ...encoders.postprocessing_steps import parse_steps
from ..events import CancelToken, ProgressListener
from ..query import MODES
from ..refitting import check_steps
from .beir import DEFAULT_QRELS, Dataset, read_dataset
from .corpus import CorpusSearch
from .measures import mean_scores
from .running import Run

if TYPE_CHECKING:
    from ...encoders.backbones.store import ModelStore
    from ...encoders.base import Encoder

DEPTH = 100
"""Documents of a ranking; recall@100 asks for that many."""

PASSAGE_TOKENS = 200
"""Most tokens of a passage where documents are split."""

HALVES = {"all": slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}
"""Parts of the judged queries by their place in the file: settings are chosen on one half, reported on the other."""

_QUERY_BATCH = 64


@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """What `evaluate_retrieval` found.

    Attributes
    ----------
    encoder, fingerprint : str or None
        None where only the lexical side was measured.
    passages : int
        Equal to `documents` unless they were split.
    scores : dict of str to dict of str to float
        Measures by mode: ``ndcg@10``, ``recall@1``, ``recall@5``, ``recall@10``, ``recall@100``, ``mrr@10``.
    forward_seconds : float
        Of `seconds`, how many were spent in the encoder's backbone.
    postprocessing : str
        Steps that all vectors went through, or ``none``.
    postprocessing_origin : str or None
        ``collection`` for statistics of this corpus, ``encoder`` for those that it brings along.
    postprocessing_fitted_on : int
        Number of vectors that the statistics come from.
    """

    dataset: str
    encoder: str | None
    fingerprint: str | None
    split: bool
    half: str
    documents: int
    passages: int
    queries: int
    scores: dict[str, dict[str, float]]
    seconds: float
    forward_seconds: float
    postprocessing: str = "none"
    postprocessing_origin: str | None = None
    postprocessing_fitted_on: int = 0
    notices: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The value that ``slotrag eval retrieval --json`` writes."""
        return {"schema": 1, **asdict(self)}


def evaluate_retrieval(
    dataset: Path,
    *,
    encoder: Encoder | str,
    models: ModelStore | None = None,
    split: bool = False,
    modes: Sequence[str] = ("dense", "lexical", "hybrid"),
    queries: str = "all",
    qrels: str = DEFAULT_QRELS,
    postprocessing: str | None = None,
    device: str = "auto",
    progress: ProgressListener | None = None,
    cancel: CancelToken | None = None,
) -> RetrievalScores:
    """Measure retrieval on a BEIR-style folder, in a library that is made for it and thrown away.

    Parameters
    ----------
    dataset : Path
        See `slotrag.rag.evaluation.beir`.
    encoder : Encoder or str
        An encoder or its spec; it is not loaded where only whole documents are searched lexically.
    split : bool
        Cut documents into passages of at most 200 tokens and score each by its best passage. Otherwise every document
        is one passage: title, space, text, cut at the encoder's limit.
    queries : str
        ``all``, or every other one: ``even`` (the first, third ...) or ``odd``.
    postprocessing : str, optional
        Steps such as ``mean+top=3`` or ``none``, fitted to the corpus as `slotrag.Library.rebuild` fits them. By
        default what the encoder brings along, as in a new collection.

    Raises
    ------
    DatasetError
        The folder is not of that form.
    slotrag.UsageError
        An unknown mode or part of the queries, an unknown encoder, a post-processing that is not possible.
    slotrag.SlotragError
        The encoder's model is missing.
    slotrag.rag.events.Cancelled
    """
    started = time.perf_counter()
    chosen = _checked_modes(modes)
    if queries not in HALVES:
        raise UsageError(f"The queries are one of {', '.join(HALVES)}, not {queries!r}.")
    steps = parse_steps(postprocessing) if postprocessing is not None else None
    data = _part(read_dataset(dataset, qrels=qrels), queries)
    if not data.queries:
        raise UsageError(f"The {queries} half of the queries of {data.name} is empty; measure all of them.")
    run = Run(progress, cancel)
    loaded = run.load(encoder, models, device) if split or chosen != ["lexical"] else None
    if steps is not None and loaded is not None:
        check_steps(steps, loaded)
    before = getattr(loaded, "forward_seconds", 0.0)
    limit = min(PASSAGE_TOKENS, loaded.max_tokens) if split and loaded else None
    with tempfile.TemporaryDirectory(prefix="slotrag-evaluation-") as folder:
        corpus = CorpusSearch(
            Path(folder) / "library", data.documents, None if chosen == ["lexical"] and not split else loaded,
            limit=limit, steps=steps, report=run.report,
        )  # fmt: skip
        try:
            rankings = _rankings(corpus, data, loaded, chosen, run)
            passages, fitted = corpus.passages, corpus.fitted
        finally:
            corpus.close()
    return RetrievalScores(
        dataset=data.name,
        encoder=loaded.spec if loaded else None,
        fingerprint=loaded.fingerprint if loaded else None,
        split=split,
        half=queries,
        documents=len(data.documents),
        passages=passages,
        queries=len(data.queries),
        scores={mode: mean_scores(data.judgements, found) for mode, found in rankings.items()},
        seconds=time.perf_counter() - started,
        forward_seconds=getattr(loaded, "forward_seconds", 0.0) - before,
        postprocessing=fitted.postprocessing.steps if fitted.postprocessing is not None else "none",
        postprocessing_origin=fitted.origin if fitted.postprocessing is not None else None,
        postprocessing_fitted_on=fitted.postprocessing.fitted_on if fitted.postprocessing is not None else 0,
        notices=fitted.notices,
    )


def _checked_modes(modes: Sequence[str]) -> list[str]:
    for mode in modes:
        if mode not in MODES:
            raise UsageError(f"There is no mode {mode!r}; choose from {', '.join(MODES)}.")
    if not modes:
        raise UsageError(f"Name at least one of the modes {', '.join(MODES)}.")
    return list(dict.fromkeys(modes))


def _part(data: Dataset, half: str) -> Dataset:
    kept = dict(list(data.queries.items())[HALVES[half]])
    return Dataset(data.name, data.documents, kept, {query: data.judgements[query] for query in kept})


def _rankings(
    corpus: CorpusSearch, data: Dataset, encoder: Encoder | None, modes: Sequence[str], run: Run
) -> dict[str, dict[str, list[str]]]:
    """Document ids, best first, by mode and query id."""
    found: dict[str, dict[str, list[str]]] = {mode: {} for mode in modes}
    names, texts = list(data.queries), list(data.queries.values())
    for start in range(0, len(names), _QUERY_BATCH):
        batch = texts[start : start + _QUERY_BATCH]
        vectors = None if encoder is None or list(modes) == ["lexical"] else encoder.encode_queries(batch)
        for offset, text in enumerate(batch):
            dense = [] if vectors is None else corpus.dense(vectors[offset], DEPTH)
            lexical = [] if list(modes) == ["dense"] else corpus.lexical(text, DEPTH)
            for mode in modes:
                ranking = {"dense": dense, "lexical": lexical}.get(mode)
                ranking = corpus.hybrid(dense, lexical) if ranking is None else ranking
                found[mode][names[start + offset]] = [data.documents[position].id for position, _ in ranking[:DEPTH]]
        run.report(start + len(batch), len(names), "queries")
    return found
