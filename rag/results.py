"""The values that a library hands out. They know no storage, no model and no terminal."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage found for a query.

    Attributes
    ----------
    score : float
        Of kind `score_kind` (``rrf``, ``cosine`` or ``bm25``); higher is better.
    dense, lexical : float or None
        The cosine and the BM25 score of the passage; None where that side did not find it.
    path : str
        Relative to its source, for display; `absolute_path` opens the file.
    copies : list of str
        Other paths with the same text.
    lines, chars : (int, int)
        First and last line (from 1); characters ``[start, end)`` of the document's text.
    """

    rank: int
    score: float
    score_kind: str
    dense: float | None
    lexical: float | None
    passage_id: int
    collection: str
    path: str
    absolute_path: str
    copies: list[str]
    page: int | None
    lines: tuple[int, int]
    chars: tuple[int, int]
    heading: str
    text: str
    relevant: bool = True
    explanation: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The passages found for `query`, best first, with the time each part took (milliseconds)."""

    query: str
    hits: list[Hit]
    timings_ms: dict[str, float]
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not indexed; `failed` tells an unreadable one from one without text or left out by a rule."""

    path: str
    reason: str
    failed: bool


@dataclass(slots=True)
class IndexReport:
    """What an indexing run did, in documents, passages and encoder calls (`encoded` = texts given to the encoder)."""

    collection: str
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    renamed: int = 0
    skipped: list[SkippedFile] = field(default_factory=list)
    passages: int = 0
    encoded: int = 0
    seconds: float = 0.0
    forward_seconds: float = 0.0
    postprocessing: str | None = None
    """Set by a `rebuild` of the post-processing alone: the steps that the collection has now, or ``none``."""
    notices: list[str] = field(default_factory=list)
    planned: list[tuple[str, str, str]] = field(default_factory=list)
    """With ``dry_run``: (action, path, reason) of each file."""

    @property
    def changed(self) -> bool:
        """Whether the run found another state of the documents than the one before."""
        return bool(self.new or self.updated or self.removed or self.renamed)


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A passage in the decoder's context, as ``text`` or ``slots``."""

    number: int
    passage_id: int
    form: str
    tokens: int
    slots: int
    cached: bool


@dataclass(frozen=True, slots=True)
class Citation:
    """A listed source of an answer, with the excerpt as it was when the answer was given."""

    number: int
    passage_id: int
    path: str
    absolute_path: str
    page: int | None
    lines: tuple[int, int]
    heading: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of the documents that supports the answer; `number` is its citation's."""

    number: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its sources.

    Attributes
    ----------
    text : str
        With citation marks ``[n]``; a sentence without support is marked.
    stop_reason : str
        ``eos``, ``length``, ``loop``, ``cancelled``, ``error``, ``quoted`` (sentences quoted in place of a reply) or
        ``not_found`` (nothing relevant in the documents).
    timings_ms : dict
        ``retrieve``, ``compress``, ``first_token``, ``total``.
    """

    question: str
    text: str
    stop_reason: str
    citations: list[Citation]
    quotes: list[Quote]
    context: list[ContextItem]
    timings_ms: dict[str, float]
    notices: list[str] = field(default_factory=list)
    session_id: str | None = None

    @property
    def found(self) -> bool:
        """Whether anything relevant was found."""
        return self.stop_reason != "not_found"
