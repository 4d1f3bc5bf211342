"""Notices texts and questions that a collection's encoder cannot read: Korean under an English model, and the like."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..encoders.backbones import catalogue
from ..encoders.spec import EncoderSpec
from .language import language_of

if TYPE_CHECKING:
    from ..storage import Catalog
    from ..storage.records import CollectionRecord

_SAMPLE = 100
_LOOKED_AT = 300
_MOST = 0.5
_NAMES = {"ko": "Korean", "ja": "Japanese", "zh": "Chinese", "ru": "Russian", "ar": "Arabic", "el": "Greek",
          "he": "Hebrew", "hi": "Hindi", "th": "Thai"}  # fmt: skip


def multilingual_notice(collection: CollectionRecord, language: str) -> list[str]:
    """A proposal to rebuild with a multilingual encoder, where `language` (see `main_language`) is one that the
    collection's own does not know by the model catalogue; else nothing."""
    model = _unable(collection, language)
    if not model:
        return []
    return [
        f"Most of collection {collection.name} is {_NAMES[language]}, which {model} does not read; for good results "
        f"run: {_rebuild(collection)}"
    ]


def question_notice(collections: Sequence[CollectionRecord], question: str) -> list[str]:
    """The same proposal for those of `collections` whose encoder does not know the language of `question`, in one
    sentence; else nothing."""
    language = language_of(question)
    unable = [(collection, model) for collection in collections if (model := _unable(collection, language))]
    if not unable:
        return []
    collection, model = unable[0]
    others = f" (as well as {', '.join(other.name for other, _ in unable[1:])})" if len(unable) > 1 else ""
    return [
        f"The question is {_NAMES[language]}, which {model}, the model of collection {collection.name}{others}, does "
        f"not read, so that it is searched for by its words only; for good results run: {_rebuild(collection)}"
    ]


def _unable(collection: CollectionRecord, language: str) -> str:
    """The model under the collection's encoder, where the catalogue knows that it does not read `language`."""
    spec = EncoderSpec.parse(collection.encoder)
    while spec.backbone is None and "encoder" in (inner := dict(spec.parameters)):
        spec = EncoderSpec.parse(inner["encoder"])
    entry = catalogue.find(spec.backbone) if spec.backbone is not None else None
    if entry is None or "multilingual" in entry.languages or language in entry.languages or language not in _NAMES:
        return ""
    return entry.name


def _rebuild(collection: CollectionRecord) -> str:
    better = f"mean@{catalogue.DEFAULT_MULTILINGUAL_BACKBONE}"
    return f"slotrag rebuild --collection {shlex.quote(collection.name)} --encoder {better}"


def main_language(catalog: Catalog, collection: CollectionRecord) -> str:
    """The language of most of a collection's passages, from a sample of them; empty where no language has the most."""
    ids = catalog.passage_ids(collection.id)
    if not len(ids):
        return ""
    sample = ids[np.linspace(0, len(ids) - 1, min(_SAMPLE, len(ids))).astype(int)]
    languages = Counter(language_of(record.text[:_LOOKED_AT]) for record in catalog.passages(sample.tolist()))
    code, count = languages.most_common(1)[0]
    return code if count >= _MOST * languages.total() else ""
