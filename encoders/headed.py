"""Encoders with a trained head on a frozen backbone: ``glot``, ``ilse`` and ``pooled``. It knows no head's workings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .backbones.frozen import FrozenLM
from .bare_text import DEFAULT_BACKBONE, BareTextEncoder, TextSettings
from .errors import UnknownParameter
from .fingerprint import fingerprint
from .heads.checkpoint import HeadCheckpoint, find_head, load_module, shipped_head
from .heads.configuration import GRAPHS, HeadConfig, Value
from .heads.heads import build_head
from .heads.inputs import config_for, head_inputs
from .spec import EncoderSpec, ParameterReader

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .backbones.store import ModelStore

POOLINGS = ("mean", "max", "first", "last", "attention", "layer", "mix", "dwatt", "mlp")

_VERSION = 1
"""Counted up when the same model, head and parameters give other vectors than before."""


class HeadedEncoder(BareTextEncoder):
    """A head over the states of a frozen language model.

    ``glot``
        A graph of the text's tokens (arXiv 2603.03389). Parameters ``layer``, whose states it reads, and ``tau``, the
        cosine above which tokens are joined.
    ``ilse``
        A graph of the model's layers (arXiv 2603.22665). Parameters ``graph`` (``cayley``, ``fc`` or ``set``) and
        ``over``: ``mean`` puts each layer's mean over tokens on its node, ``glot`` what a GLOT makes of them.
    ``pooled``
        What these are measured against. Parameter ``pooling``: ``attention`` (AdaPool, the default), ``mean``,
        ``max``, ``first``, ``last``, ``layer`` (the mean at ``layer``), ``mix`` (ELMo's scalar mix of the layers),
        ``dwatt`` (depth-wise attention), ``mlp`` (a perceptron on the last layer's mean); and ``layer``.

    All of them have ``head``, the hash of a trained head, which brings its own parameters, prefixes and length along,
    and refuses others where they would change what it computes. By default it is the one that ships for the backbone,
    and where none ships ``none``: the untrained start, whose cosines are those of ``mean`` (of ``pooling=mix``: those
    of the mean over layers). The default backbone is ``minilm-l6``; ``query_prefix``, ``passage_prefix``,
    ``max_length``, ``sink`` and ``dtype`` (the backbone's; a head computes in float32) are as for ``mean``.

    `forward_seconds` and `head_seconds` are the times spent in the backbone and in the head so far.
    """

    def __init__(
        self,
        language_model: FrozenLM,
        head: torch.nn.Module,
        config: HeadConfig,
        *,
        spec: str,
        fingerprint: str,
        max_length: int,
        query_prefix: str = "",
        passage_prefix: str = "",
    ) -> None:
        super().__init__(
            language_model,
            spec=spec,
            fingerprint=fingerprint,
            dimension=config.dimension,
            max_length=max_length,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
        )
        self._config = config
        self._head = head.eval().to(language_model.device)
        self._head_seconds = 0.0
        self._head_lock = threading.Lock()

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> HeadedEncoder:
        """Build ``glot``, ``ilse`` or ``pooled``; see the class for their parameters."""
        backbone = spec.backbone or DEFAULT_BACKBONE
        reader = spec.reader()
        method, asked = _READERS[spec.name](reader)
        if reader.optional_text("sink") is not None:
            asked["sink"] = reader.flag("sink", True)
        hash = reader.optional_text("head")
        weights = models.weights_sha256(backbone)
        if hash is None:
            graph = asked.get("graph")
            hash = shipped_head(method or _POOLING, weights, None if graph is None else str(graph)) or "none"
        if hash == "none":
            settings = TextSettings.read(reader, backbone)
            reader.finish()
            language_model = settings.load(models, device)
            config = config_for(language_model, method or _POOLING, **asked)
            head, head_weights = untrained_head(config), "none"
        else:
            checkpoint = find_head(hash, models)
            settings = TextSettings.read(
                reader,
                backbone,
                prefixes=(checkpoint.query_prefix, checkpoint.passage_prefix),
                max_length=checkpoint.max_length,
            )
            reader.finish()
            _require(checkpoint, spec.name, method, asked, weights, models.tokenizer_sha256(backbone))
            language_model = settings.load(models, device)
            config = checkpoint.config
            head, head_weights = load_module(checkpoint), checkpoint.weights_sha256
        max_length = settings.length(language_model)
        facts = {
            "method": "head",
            "version": _VERSION,
            "head": config.to_json(),
            "head_weights": head_weights,
            **settings.facts(models, max_length),
        }
        return cls(
            language_model,
            head,
            config,
            spec=_canonical(spec, backbone, hash),
            fingerprint=fingerprint(facts),
            max_length=max_length,
            query_prefix=settings.query_prefix,
            passage_prefix=settings.passage_prefix,
        )

    @property
    def config(self) -> HeadConfig:
        """The head's configuration."""
        return self._config

    @property
    def head_seconds(self) -> float:
        """Seconds spent in the head so far."""
        return self._head_seconds

    def _rows(self, token_lists: list[Sequence[int]]) -> np.ndarray:
        import torch

        states, mask = head_inputs(self._language_model, token_lists, self._config)
        started = time.perf_counter()
        with torch.inference_mode():
            rows = self._head(states, mask).float().cpu().numpy()
        with self._head_lock:
            self._head_seconds += time.perf_counter() - started
        return rows


def untrained_head(config: HeadConfig) -> torch.nn.Module:
    """The head before any training, in eval mode; with ``start=mean`` its random part is weighed by exactly 0.

    So its vectors depend on no random number generator.
    """
    import torch

    head = build_head(config)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if name.split(".")[-1] == "gate":
                parameter.zero_()
    return head.eval()


def _glot(reader: ParameterReader) -> tuple[str, dict[str, Value]]:
    asked: dict[str, Value] = {}
    if reader.optional_text("layer") is not None:
        asked["layer"] = reader.integer("layer", -1)
    if reader.optional_text("tau") is not None:
        asked["tau"] = reader.number("tau", 0.6, least=-1.0, most=1.0)
    return "glot", asked


def _ilse(reader: ParameterReader) -> tuple[str, dict[str, Value]]:
    asked: dict[str, Value] = {}
    if reader.optional_text("graph") is not None:
        asked["graph"] = reader.choice("graph", GRAPHS[0], GRAPHS)
    if reader.optional_text("over") is not None:
        asked["over"] = reader.choice("over", "mean", ("mean", "glot"))
    return "ilse", asked


def _pooled(reader: ParameterReader) -> tuple[str | None, dict[str, Value]]:
    asked: dict[str, Value] = {}
    if reader.optional_text("layer") is not None:
        asked["layer"] = reader.integer("layer", -1)
    given = reader.optional_text("pooling") is not None
    return (reader.choice("pooling", _POOLING, POOLINGS) if given else None), asked


_POOLING = "attention"
_READERS: dict[str, Callable[[ParameterReader], tuple[str | None, dict[str, Value]]]] = {
    "glot": _glot,
    "ilse": _ilse,
    "pooled": _pooled,
}
"""For each name the head's method (None: whatever a named head is) and the parameters that the spec gives itself."""


def _require(
    checkpoint: HeadCheckpoint,
    name: str,
    method: str | None,
    asked: dict[str, Value],
    weights: str,
    tokenizer: str,
) -> None:
    own = checkpoint.config.method
    if method is None:
        method = own if own in POOLINGS else _POOLING
    checkpoint.require_for(method, backbone_weights=weights, tokenizer=tokenizer)
    if "layer" in asked:
        layer, states = int(asked["layer"]), checkpoint.config.layers + 1
        if "layer" not in checkpoint.config.parameters or not -states <= layer < states:
            raise UnknownParameter(f"the head {checkpoint.hash} of {name!r} reads no layer {layer}: leave layer out")
        asked["layer"] = layer % states
    checkpoint.require_parameters(**asked)


def _canonical(spec: EncoderSpec, backbone: str, hash: str) -> str:
    """The spec with its backbone and head named, so that it means the same under a slotrag that ships other heads."""
    return str(EncoderSpec(spec.name, backbone, tuple({**dict(spec.parameters), "head": hash}.items())))
