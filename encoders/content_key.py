"""A hash of all that the fingerprint of a spec can depend on, found without loading a model.

It tells that an encoder is the one it was, in the time that hashes of files take. It knows no encoder's parts: the
encoder's class tells them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from . import registry
from .errors import EncoderUnavailable, UnknownEncoder
from .spec import EncoderSpec

if TYPE_CHECKING:
    from .backbones.store import ModelStore


class _NotKnown(Exception):
    """Something that the fingerprint depends on is not known, or not here."""


def content_key(spec: str, models: ModelStore) -> str | None:
    """Hash over the spec, the versions of the code, and the contents of the models, files and encoders it names.

    Returns
    -------
    str or None
        64 hex digits; None where an encoder does not tell its parts, or one of them is not here.
    """
    try:
        facts = [__version__, *_facts(EncoderSpec.parse(spec), models)]
    except _NotKnown:
        return None
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _facts(spec: EncoderSpec, models: ModelStore) -> Iterator[str]:
    try:
        parts = registry.load(spec.name).parts(spec)
    except (EncoderUnavailable, UnknownEncoder):
        raise _NotKnown from None  # building it will say what is wrong
    if parts is None:
        raise _NotKnown
    yield str(spec)
    for point in entry_points(group=registry.GROUP):
        if point.name == spec.name:
            yield f"{point.value} {point.dist.version if point.dist else ''}"
    for model in parts.models:
        if not models.present(model):
            raise _NotKnown
        yield models.weights_sha256(model)
        yield models.tokenizer_sha256(model)
    for file in parts.files:
        try:
            yield hashlib.sha256(Path(file).expanduser().read_bytes()).hexdigest()
        except OSError:
            raise _NotKnown from None
    for inner in parts.encoders:
        yield from _facts(EncoderSpec.parse(inner), models)
