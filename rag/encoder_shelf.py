"""The encoders at work in a library: built when first needed, kept, and compared with what collections were made with.

Building one may load a model. Whether a collection's encoder is still the same can often be told without: the model's
files are what they were when its fingerprint was last compared.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..encoders import registry
from ..encoders.content_key import content_key
from ..encoders.spec import EncoderSpec
from ..storage.records import CollectionRecord
from .errors import FingerprintMismatch

if TYPE_CHECKING:
    from ..encoders.backbones.store import ModelStore
    from ..encoders.base import Encoder
    from ..storage import Catalog

SPLITTER_VERSION = 2
"""Counted up when the same document may be cut into other passages, or get other context lines, than before."""


class EncoderShelf:
    """Encoders by spec; may be used from several threads.

    Parameters
    ----------
    catalog : Catalog, optional
        Where an encoder that has variants written keeps those of passages.
    """

    def __init__(
        self, models: ModelStore, *, device: str = "auto", threads: int = 0, catalog: Catalog | None = None
    ) -> None:
        self._models, self._device, self._threads, self._catalog = models, device, threads, catalog
        self._encoders: dict[str, Encoder] = {}
        self._lock = threading.RLock()

    def get(self, spec: str) -> Encoder:
        """The encoder of `spec`, built once."""
        key = str(EncoderSpec.parse(spec))
        with self._lock:
            if key not in self._encoders:
                if self._threads:
                    from ..encoders.backbones.threads import set_threads

                    set_threads(self._threads)
                encoder = registry.create(key, self._models, device=self._device)
                use_variants = getattr(encoder, "use_variants", None)
                if use_variants is not None and self._catalog is not None:
                    use_variants(CatalogVariants(self._catalog))
                self._encoders[key] = self._encoders.setdefault(encoder.spec, encoder)
            return self._encoders[key]

    def of(self, collection: CollectionRecord) -> Encoder:
        """The encoder that a collection was made with.

        Raises
        ------
        FingerprintMismatch
            The spec now gives another encoder.
        """
        encoder = self.get(collection.encoder)
        require_same(collection, encoder)
        return encoder

    def forward_seconds(self, spec: str) -> float:
        """Seconds that the encoder of `spec` has spent in its backbone so far; 0 where it was not built or does not
        tell."""
        with self._lock:
            return getattr(self._encoders.get(spec), "forward_seconds", 0.0)

    def verified(self, collection: CollectionRecord) -> bool:
        """Whether the collection's encoder is known to be the same without building it."""
        key = self.key(collection.encoder)
        return key is not None and collection.splitting.get("verified") == key

    def key(self, spec: str) -> str | None:
        """Hash of all that the fingerprint of `spec` can depend on, found without loading a model; None where that
        is not known: an encoder that does not tell its parts, or a model that is not here."""
        return content_key(spec, self._models)


class CatalogVariants:
    """The catalog as a `slotrag.encoders.variants.VariantStore`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def get(self, keys: Sequence[bytes]) -> dict[bytes, list[str]]:
        return self._catalog.get_variants(keys)

    def put(self, variants: dict[bytes, list[str]], owners: Mapping[bytes, bytes]) -> None:
        self._catalog.put_variants(variants, owners)


def splitting_for(encoder: Encoder, passage_tokens: int) -> dict[str, Any]:
    """How a collection under `encoder` is split when passages of `passage_tokens` are asked for."""
    return {
        "tokens": min(passage_tokens, encoder.max_tokens),
        "asked": passage_tokens,
        "version": SPLITTER_VERSION,
    }


def require_same(collection: CollectionRecord, encoder: Encoder, passage_tokens: int | None = None) -> None:
    """Refuse to go on where passages made now would not fit the collection's.

    Parameters
    ----------
    passage_tokens : int, optional
        Compare the splitting too.

    Raises
    ------
    FingerprintMismatch
    """
    if encoder.fingerprint != collection.fingerprint:
        raise FingerprintMismatch(
            collection.name,
            stored=f"{collection.encoder} (fingerprint {collection.fingerprint})",
            current=f"{encoder.spec} (fingerprint {encoder.fingerprint})",
            command=rebuild_command(collection, encoder.spec),
        )
    if passage_tokens is not None:
        require_same_splitting(collection, passage_tokens)


def require_same_splitting(collection: CollectionRecord, passage_tokens: int) -> None:
    """Refuse to go on where documents would be split otherwise than the collection's. Raises `FingerprintMismatch`."""
    stored = collection.splitting
    asked, version = stored.get("asked", passage_tokens), stored.get("version", SPLITTER_VERSION)
    if (asked, version) != (passage_tokens, SPLITTER_VERSION):
        raise FingerprintMismatch(
            collection.name,
            stored=f"passages of {asked} tokens, splitter {version} (fingerprint {_short(asked, version)})",
            current=f"passages of {passage_tokens} tokens, splitter {SPLITTER_VERSION} "
            f"(fingerprint {_short(passage_tokens, SPLITTER_VERSION)})",
            command=rebuild_command(collection, collection.encoder),
        )


def rebuild_command(collection: CollectionRecord, spec: str) -> str:
    """The command that makes a collection anew under the encoder of `spec`."""
    import shlex

    command = f"slotrag rebuild --collection {shlex.quote(collection.name)}"
    return command if spec == collection.encoder else f"{command} --encoder {shlex.quote(spec)}"


def _short(tokens: int, version: int) -> str:
    return hashlib.sha256(f"splitting {tokens} {version}".encode()).hexdigest()[:16]
