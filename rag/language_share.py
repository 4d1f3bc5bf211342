"""Notices a collection whose texts its encoder cannot read: mostly Korean under an English model, and the like."""

from __future__ import annotations

import shlex
from collections import Counter
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
    backbone = EncoderSpec.parse(collection.encoder).backbone
    entry = catalogue.find(backbone) if backbone is not None else None
    if entry is None or "multilingual" in entry.languages:
        return []
    if language in entry.languages or language not in _NAMES:
        return []
    better = f"mean@{catalogue.DEFAULT_MULTILINGUAL_BACKBONE}"
    return [
        f"Most of collection {collection.name} is {_NAMES[language]}, which {entry.name} does not read; for good "
        f"results run: slotrag rebuild --collection {shlex.quote(collection.name)} --encoder {better}"
    ]


def main_language(catalog: Catalog, collection: CollectionRecord) -> str:
    """The language of most of a collection's passages, from a sample of them; empty where no language has the most."""
    ids = catalog.passage_ids(collection.id)
    if not len(ids):
        return ""
    sample = ids[np.linspace(0, len(ids) - 1, min(_SAMPLE, len(ids))).astype(int)]
    languages = Counter(language_of(record.text[:_LOOKED_AT]) for record in catalog.passages(sample.tolist()))
    code, count = languages.most_common(1)[0]
    return code if count >= _MOST * languages.total() else ""
