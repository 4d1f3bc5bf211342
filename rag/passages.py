"""A document's passages as they are stored, and what the encoder gets for each. It knows no catalog, reads no file."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ..storage.records import NewPassage
from .context_line import context_lines
from .documents import Document
from .splitting import split

if TYPE_CHECKING:
    from ..encoders.base import Encoder


def passages_of(document: Document, encoder: Encoder, limit: int) -> tuple[list[NewPassage], list[str]]:
    """The passages of a document, or of a part of one, and what the encoder gets for each, in the order of the text.

    Parameters
    ----------
    limit : int
        Most tokens of a passage, without its context line; at least 1.

    Raises
    ------
    ValueError
        `limit` is below 1.
    """
    pieces = split(document, encoder.token_offsets, limit)
    contexts = context_lines(document, pieces, encoder.token_offsets, limit, encoder.max_tokens)
    inputs = [encoder_input(context, piece.text) for context, piece in zip(contexts, pieces, strict=True)]
    passages = [
        NewPassage(piece.text, context, piece.heading, piece.page, piece.lines, piece.chars, input_hash(text))
        for piece, context, text in zip(pieces, contexts, inputs, strict=True)
    ]
    return passages, inputs


def encoder_input(context: str, text: str) -> str:
    """Exactly what the encoder gets for a passage: the context line, where there is one, and the text."""
    return f"{context}\n{text}" if context else text


def input_hash(text: str) -> bytes:
    """sha256 of what the encoder gets, 32 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
