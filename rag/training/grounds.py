"""What a head is trained on top of: its configuration, the frozen backbone, how texts are put to it. It knows no data.

A spec names it as it names an encoder, ``glot@minilm-l6:tau=0.3,gat_layers=4``, with all parameters of the method; with
``head=HASH`` the training goes on from that head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import UsageError
from ...encoders.bare_text import DEFAULT_BACKBONE, TextSettings
from ...encoders.heads.configuration import METHODS, HeadConfig, Value
from ...encoders.spec import EncoderSpec, ParameterReader, did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from ...encoders.backbones.frozen import FrozenLM
    from ...encoders.backbones.store import ModelStore
    from ...encoders.heads.checkpoint import HeadCheckpoint
    from ...encoders.training.state_cache import StateCache

NAMES = ("glot", "ilse", "pooled")
"""Encoders that have a head to train."""

DEFAULT_POOLING = "attention"


@dataclass(frozen=True)
class Ground:
    """A head's place before it is trained.

    Attributes
    ----------
    name : str
        Of the encoder, one of `NAMES`.
    config : HeadConfig
    start : mapping of str to array, or None
        First weights; None for new ones.
    head : str
        The hash of the head that these are of, or ``none``.
    max_length : int
        Tokens of one input, special tokens included.
    facts : dict
        Of the backbone and the texts: ``weights``, ``tokenizer``, ``max_length``, ``query_prefix``,
        ``passage_prefix``.
    """

    name: str
    settings: TextSettings
    language_model: FrozenLM
    config: HeadConfig
    start: Mapping[str, np.ndarray] | None
    max_length: int
    facts: dict[str, Any]
    head: str = "none"

    @classmethod
    def of(cls, spec: str, models: ModelStore, *, device: str = "auto") -> Ground:
        """Read a spec and load its backbone.

        Raises
        ------
        slotrag.UsageError
            No encoder with a head, an unknown parameter, or a method that has nothing to learn.
        slotrag.SlotragError
            The backbone or the head that is named is not on this machine.
        """
        from ...encoders.heads.checkpoint import find_head
        from ...encoders.heads.inputs import config_for

        parsed = require_head(spec)
        backbone = parsed.backbone or DEFAULT_BACKBONE
        reader = parsed.reader()
        before = reader.text("head", "none")
        checkpoint = None if before == "none" else find_head(before, models)
        method = parsed.name if parsed.name != "pooled" else reader.choice("pooling", _default(checkpoint), _poolings())
        if checkpoint is None:
            asked = _parameters(reader, method)
            settings = TextSettings.read(reader, backbone)
        else:
            checkpoint.require_for(
                method,
                backbone_weights=models.weights_sha256(backbone),
                tokenizer=models.tokenizer_sha256(backbone),
            )
            asked = {}
            settings = TextSettings.read(
                reader, backbone,
                prefixes=(checkpoint.query_prefix, checkpoint.passage_prefix), max_length=checkpoint.max_length,
            )  # fmt: skip
        reader.finish()
        language_model = settings.load(models, device)
        config = config_for(language_model, method, **asked) if checkpoint is None else checkpoint.config
        if not config.trainable:
            raise UsageError(f"pooling={method} has nothing to learn; train another pooling, glot or ilse.")
        length = settings.length(language_model)
        return cls(
            parsed.name, settings, language_model, config, checkpoint.weights if checkpoint is not None else None,
            length, settings.facts(models, length), before,
        )  # fmt: skip

    @property
    def device(self) -> str:
        """Where the backbone is, and where the head is trained."""
        return str(self.language_model.device)

    def cache(self, folder: Path, limit_bytes: int | None = None) -> StateCache:
        """The cache of the head's inputs below `folder`."""
        from ...encoders.training.state_cache import StateCache

        return StateCache.open(folder, self.language_model, self.config, facts=self.facts, limit_bytes=limit_bytes)

    def checkpoint(
        self, weights: Mapping[str, np.ndarray], *, training: Mapping[str, Any], measured: Mapping[str, Any]
    ) -> HeadCheckpoint:
        """The head with trained weights, to be saved."""
        from ...encoders.heads.checkpoint import HeadCheckpoint

        return HeadCheckpoint(
            config=self.config,
            weights=weights,
            backbone_weights=self.facts["weights"],
            tokenizer=self.facts["tokenizer"],
            query_prefix=self.settings.query_prefix,
            passage_prefix=self.settings.passage_prefix,
            max_length=self.max_length,
            training=training,
            measured=measured,
        )

    def spec_of(self, hash: str) -> str:
        """The encoder's spec under a trained head, which brings its own parameters along."""
        own = {} if self.settings.dtype == "float32" else {"dtype": self.settings.dtype}
        return str(EncoderSpec(self.name, self.settings.backbone, tuple({**own, "head": hash}.items())))


def require_head(spec: str) -> EncoderSpec:
    """The spec read, which is to name an encoder with a head; nothing else of it is looked at, and nothing loaded.

    Raises
    ------
    slotrag.UsageError
        It names another encoder, or is none.
    """
    parsed = EncoderSpec.parse(spec)
    if parsed.name not in NAMES:
        raise UsageError(
            f"there is no head to train for {parsed.name!r}{did_you_mean(parsed.name, NAMES)}; there are "
            f"{', '.join(NAMES)}"
        )
    return parsed


def spec_over(head: str, encoder: str, models: ModelStore) -> str:
    """The spec of a head to adapt to a collection: over the backbone of its `encoder`, where the head names none.

    Unless `head` says how the head is to be (``graph`` apart), the training goes on from the collection's own head
    where that is of the same kind, else from the one that ships for the backbone.
    """
    asked, own = EncoderSpec.parse(head), EncoderSpec.parse(encoder)
    while own.backbone is None and "encoder" in (inner := dict(own.parameters)):
        own = EncoderSpec.parse(inner["encoder"])
    spec = EncoderSpec(asked.name, asked.backbone or own.backbone, asked.parameters)
    if asked.name not in ("glot", "ilse") or not set(dict(asked.parameters)) <= {"graph"}:
        return str(spec)
    before = _head_before(spec, own, models)
    # The head brings its own parameters along.
    return str(spec) if before is None else str(EncoderSpec(spec.name, spec.backbone, (("head", before),)))


def _head_before(spec: EncoderSpec, own: EncoderSpec, models: ModelStore) -> str | None:
    from ...encoders.heads.checkpoint import find_head, shipped_head

    graph = dict(spec.parameters).get("graph")
    hash = dict(own.parameters).get("head", "none")
    same = (own.name, own.backbone) == (spec.name, spec.backbone) and hash != "none"
    if same and (graph is None or find_head(hash, models).config.parameters.get("graph") == graph):
        return hash
    return shipped_head(spec.name, models.weights_sha256(spec.backbone or DEFAULT_BACKBONE), graph)


def _default(checkpoint: HeadCheckpoint | None) -> str:
    return DEFAULT_POOLING if checkpoint is None else checkpoint.config.method


def _poolings() -> list[str]:
    return [method for method in METHODS if method not in NAMES]


def _parameters(reader: ParameterReader, method: str) -> dict[str, Value]:
    """The head's own parameters that the spec gives, of the kinds of their defaults."""
    asked: dict[str, Value] = {}
    for name, parameter in METHODS[method].items():
        if reader.optional_text(name) is None:
            continue
        default = parameter.default
        if isinstance(default, bool):
            asked[name] = reader.flag(name, default)
        elif isinstance(default, int):
            asked[name] = reader.integer(name, default)
        elif isinstance(default, float):
            asked[name] = reader.number(name, default)
        else:
            asked[name] = (
                reader.choice(name, default, parameter.choices) if parameter.choices else reader.text(name, default)
            )
    return asked
