"""A corpus in a temporary library: stored, indexed and searched by the code that a user's library runs on.

It knows no query set, no measure and no file format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...storage import Catalog
from ...storage.records import NewDocument, NewPassage
from ..documents import Document
from ..fusion import HYBRID, FusionSettings, fuse_sides
from ..indexing import BATCH_TEXTS
from ..passages import encoder_input, input_hash
from ..postprocessing import ENCODER, suggested
from ..refitting import Fitted, fit_to
from ..splitting import split
from .beir import CorpusDocument

if TYPE_CHECKING:
    from ...encoders.base import Encoder
    from ...encoders.postprocessing_steps import Steps
    from ...index import VectorIndex

DocumentScores = list[tuple[int, float]]
"""Documents by their position in the corpus, with scores, best first."""

_TRANSACTION_DOCUMENTS = 256
_NO_VECTORS = "0" * 64


class CorpusSearch:
    """The documents of a corpus, stored in a new library in `folder` and searchable by either side.

    `fitted` is the post-processing that its vectors go through.

    Parameters
    ----------
    encoder : Encoder or None
        None where only the lexical side is wanted; then there are no vectors.
    steps : Steps or None
        Post-processing, fitted to the corpus as `rebuild` fits it. None takes what the encoder brings along, as a new
        collection does.
    limit : int or None
        Tokens of a passage. None stores each document whole, as one passage, which the encoder cuts at its own limit.
    report : callable
        Told (documents or texts done, all of them, the unit) as the work goes; it may raise to cancel.
    """

    def __init__(
        self,
        folder: Path,
        documents: Sequence[CorpusDocument],
        encoder: Encoder | None,
        *,
        limit: int | None = None,
        steps: Steps | None = None,
        report: Callable[[int, int, str], None] = lambda done, total, unit: None,
    ) -> None:
        self._encoder, self._report = encoder, report
        self._steps = steps
        self.fitted = Fitted(None)
        self._catalog = Catalog.open(folder)
        self._collection = self._catalog.create_collection(
            "corpus",
            encoder=encoder.spec if encoder else "none",
            fingerprint=encoder.fingerprint if encoder else _NO_VECTORS,
            dimension=encoder.dimension if encoder else 1,
            splitting={"passage_tokens": limit},
        ).id
        pieces = [self._pieces(document, limit) for document in documents]
        self._document_of = self._store(pieces)
        self._index = self._indexed(text for texts in pieces for text in texts) if encoder else None

    @property
    def passages(self) -> int:
        """Number of passages stored."""
        return len(self._document_of)

    def close(self) -> None:
        """Close the library's files."""
        self._catalog.close()

    def dense(self, vector: np.ndarray, depth: int) -> DocumentScores:
        """The `depth` documents whose best passage is nearest to `vector`, float32 (dimension,), as the encoder
        gives it."""
        index, postprocessing = self._index, self.fitted.postprocessing
        assert index is not None, "made without an encoder"
        query = vector[None] if postprocessing is None else postprocessing.apply(vector[None])

        def passages(k: int) -> list[tuple[int, float]]:
            ids, scores = index.search(query, k)[0]
            return list(zip(ids.tolist(), scores.tolist(), strict=True))

        return self._best_passages(passages, depth)

    def lexical(self, query: str, depth: int) -> DocumentScores:
        """The `depth` documents whose best passage fits the words of `query` best."""
        return self._best_passages(lambda k: self._catalog.lexical_search(self._collection, query, k), depth)

    @staticmethod
    def hybrid(dense: DocumentScores, lexical: DocumentScores, settings: FusionSettings = HYBRID) -> DocumentScores:
        """Both sides fused as a search fuses them."""
        return fuse_sides(dense[: settings.depth], lexical[: settings.depth], settings)

    def _pieces(self, document: CorpusDocument, limit: int | None) -> list[str]:
        if limit is None:
            return [document.whole]
        assert self._encoder is not None, "splitting asks the encoder for its tokens"
        text = f"{document.title}\n\n{document.text}".strip()
        pieces = split(Document(document.title, text, "text/plain"), self._encoder.token_offsets, limit)
        return [piece.text for piece in pieces] or [""]

    def _store(self, pieces: Sequence[Sequence[str]]) -> dict[int, int]:
        """Store the documents; the position of the document of each passage id."""
        document_of: dict[int, int] = {}
        for start in range(0, len(pieces), _TRANSACTION_DOCUMENTS):
            group = pieces[start : start + _TRANSACTION_DOCUMENTS]
            new = [_new_document(start + offset, texts) for offset, texts in enumerate(group)]
            for offset, ids in enumerate(self._catalog.put_documents(self._collection, new)):
                document_of |= dict.fromkeys(ids, start + offset)
            self._report(start + len(group), len(pieces), "documents")
        return document_of

    def _indexed(self, texts: Iterable[str]) -> VectorIndex:
        """Encode the texts, each different one once, and index the vectors as the library keeps them."""
        from ...index import IndexState, new_index

        encoder = self._encoder
        assert encoder is not None, "called with an encoder only"
        inputs = {input_hash(given): given for given in (encoder_input("", text) for text in texts)}
        longest_first = sorted(inputs.items(), key=lambda item: len(item[1]), reverse=True)
        for start in range(0, len(longest_first), BATCH_TEXTS):
            batch = longest_first[start : start + BATCH_TEXTS]
            vectors = encoder.encode_documents([text for _, text in batch])
            self._catalog.put_vectors(encoder.fingerprint, [key for key, _ in batch], vectors)
            self._report(start + len(batch), len(longest_first), "texts")
        self.fitted = self._fitted(encoder)
        postprocessing = self.fitted.postprocessing
        dimension = encoder.dimension if postprocessing is None else postprocessing.dimension_out
        index = new_index(dimension, IndexState(0, encoder.fingerprint))
        for ids, vectors in self._catalog.vectors(self._collection):
            index.add(ids, vectors if postprocessing is None else postprocessing.apply(vectors))
        return index

    def _fitted(self, encoder: Encoder) -> Fitted:
        if self._steps is None:
            return Fitted(suggested(encoder), ENCODER)
        raw = (vectors for _, vectors in self._catalog.vectors(self._collection))
        return fit_to(self._steps, self.passages, lambda: raw, encoder)

    def _best_passages(self, passages: Callable[[int], list[tuple[int, float]]], depth: int) -> DocumentScores:
        """Documents by their best passage; more passages are asked for until there are `depth` documents or no more."""
        k = depth
        while True:
            found = passages(k)
            best: dict[int, float] = {}
            for passage_id, score in found:
                best.setdefault(self._document_of[passage_id], score)
            if len(best) >= depth or len(found) < k:
                return list(best.items())[:depth]
            k *= 2


def _new_document(position: int, texts: Sequence[str]) -> NewDocument:
    passages = [
        NewPassage(text, "", "", None, (1, 1), (0, len(text)), input_hash(encoder_input("", text))) for text in texts
    ]
    path = f"corpus/{position}"
    return NewDocument(None, path, path, 0, 0, None, "corpus", "indexed", passages=passages)
