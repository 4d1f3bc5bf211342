"""Echo embeddings (arXiv 2402.15449): the encoder ``echo``, a text said twice to a frozen causal language model.

Tokens of the second time have seen the whole text the first time; the vector is the mean of their states. It costs
twice the tokens and trains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .backbones.frozen import DTYPES, FrozenLM
from .backbones.prefixed import PrefixedLM
from .batching import batch_limits, batches
from .errors import PromptTooLong
from .fingerprint import fingerprint
from .pooling import pool, unit_rows
from .prompt_tokens import EchoTokens, PromptText, literal_tokenizer
from .prompted import DEFAULT_BACKBONE, PromptedEncoder, calibrated, causal_model, layer_of, length_of
from .prompts import ECHO_PROMPTS, EchoTemplate
from .spec import EncoderSpec

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore
    from .postprocessing import Postprocessing

_VERSION = 1
"""Counted up when the same model and parameters give other vectors than before."""


class EchoEncoder(PromptedEncoder):
    """The mean state of a text's tokens where a prompt says it the second time.

    The default backbone is ``smollm2-135m``. Parameters of the spec:

    ``prompt``
        ``rewrite`` (default, the paper's), ``repeat`` or ``plain``.
    ``layer``
        Whose states are averaged: k after k layers, -1 (default) the last after the final norm. The layers above are
        not run.
    ``max_length``
        Tokens of one whole prompt; a text gets less than half of them.
    ``dtype``
        ``float32`` (default), ``bfloat16`` or ``float16``.
    ``calibration``
        As for ``prompteol``.

    Passages and queries are encoded alike; double quotes become single ones. `forward_seconds` is the time spent in
    the backbone so far, `postprocessing` what the calibration suggests.
    """

    def __init__(
        self,
        language_model: FrozenLM,
        *,
        spec: str,
        fingerprint: str,
        template: EchoTemplate,
        layer: int,
        max_length: int,
        postprocessing: Postprocessing | None = None,
    ) -> None:
        self.spec = spec
        self.fingerprint = fingerprint
        self.postprocessing = postprocessing
        self.dimension = language_model.width(layer)
        self._language_model = language_model
        backend = literal_tokenizer(language_model.tokenizer)
        self._prompt = EchoTokens(language_model.tokenizer, backend, template, max_length)
        self.max_tokens = self._prompt.room
        if self.max_tokens < 1:
            raise PromptTooLong(
                f"of the {max_length} tokens that the model reads, the prompt leaves none for the text said twice: use "
                "a larger max_length"
            )
        self._text = PromptText(backend, self.max_tokens)
        self._model = PrefixedLM(language_model, self._prompt.head, layer)
        self._budget, self._most = batch_limits(language_model.device.type)

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> EchoEncoder:
        """Build ``echo[@BACKBONE]``; see the class for its parameters."""
        backbone = spec.backbone or DEFAULT_BACKBONE
        folder = models.resolve(backbone)
        weights = models.weights_sha256(backbone)
        spec, parameters, postprocessing = calibrated(spec, weights, models)
        reader = parameters.reader()
        reader.text("calibration", "none")
        template = ECHO_PROMPTS[reader.choice("prompt", "rewrite", list(ECHO_PROMPTS))]
        dtype = reader.choice("dtype", "float32", DTYPES)
        language_model = causal_model(folder, backbone, device=device, dtype=dtype)
        layer = layer_of(reader, -1, language_model, backbone)
        max_length = length_of(reader, language_model, backbone)
        reader.finish()
        facts = {
            "method": "echo",
            "version": _VERSION,
            "weights": weights,
            "tokenizer": models.tokenizer_sha256(backbone),
            "prompt": [template.before, template.between],
            "layer": layer,
            "max_length": max_length,
        }
        if dtype != "float32":
            facts["dtype"] = dtype
        return cls(
            language_model,
            spec=str(EncoderSpec(spec.name, backbone, spec.parameters)),
            fingerprint=fingerprint(facts),
            template=template,
            layer=layer,
            max_length=max_length,
            postprocessing=postprocessing,
        )

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts)

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        import numpy as np
        import torch

        prompts = self._prompt.ids(self._text.cut(texts))
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        for places in batches([len(ids) for ids, _ in prompts], self._budget, self._most):
            states, mask = self._model.states([prompts[place][0] for place in places])
            own = torch.tensor([prompts[place][1] for place in places], device=mask.device)[:, None]
            # The second time stands at the end of each row.
            left = mask.sum(dim=1, keepdim=True) - mask.cumsum(dim=1)
            rows[places] = pool(states, mask & (left < own)).cpu().numpy()
        return unit_rows(rows)
