"""Prompts that ask a frozen language model for a text in one word: the encoders ``prompteol`` and ``tp``.

The vector is the state of the prompt's last token at a late layer (PromptEOL, arXiv 2307.16645). With ``tp``, Token
Prepending (arXiv 2412.11556), that state is copied, layer after layer, to a placeholder before the text, so that the
text's tokens see the whole of it. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .backbones.frozen import DTYPES, FrozenLM
from .backbones.prefixed import PLACEHOLDERS, PrefixedLM
from .batching import batch_limits, encode_in_batches
from .errors import EncoderUnavailable, PromptTooLong
from .fingerprint import fingerprint
from .lengths import prompt_length
from .pooling import unit_rows
from .prompt_tokens import PromptText, QuotedTokens, literal_tokenizer
from .prompted import DEFAULT_BACKBONE, PromptedEncoder, calibrated, causal_model, layer_of, length_of
from .prompts import DEMONSTRATIONS, PROMPTS, Template
from .spec import EncoderSpec, ParameterReader

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .backbones.store import ModelStore
    from .postprocessing import Postprocessing

_VERSION = 1
"""Counted up when the same model and parameters give other vectors than before."""

_START = 1
_EXIT = 3
# What the authors of Token Prepending chose for their models: (type, width, vocabulary) to exit.
_AUTHORS_EXIT = {
    ("llama", 4096, 32_000): 7,
    ("llama", 5120, 32_000): 7,
    ("llama", 4096, 128_256): 3,
    ("qwen2", 3584, 152_064): 6,
    ("gemma2", 3584, 256_000): 6,
}


@dataclass(frozen=True, slots=True)
class Prepending:
    """Token Prepending: before the layers `copied` (counted from 0) the last state goes to the placeholder.

    With an empty range the placeholder stands in the prompt and nothing is copied.
    """

    copied: range
    placeholder: str = "zeros"


class OneWordEncoder(PromptedEncoder):
    """The state of the last token of a prompt that asks for the text in one word.

    The default backbone is ``smollm2-135m``; any causal language model will do. Parameters of the spec:

    ``prompt``
        ``eol`` (default), ``cot``, ``knowledge`` or ``metaeol`` (eight prompts, their states averaged).
    ``layer``
        Whose state is read: k after k layers, -1 the last after the final norm, -2 (default) the one before. The
        layers above are not run.
    ``demonstration``
        ``none`` (default) or an answered prompt to put in front; see `prompts.DEMONSTRATIONS`.
    ``start``, ``exit`` (``tp`` only)
        The state is copied before the layers ``start <= i < exit``, counted from 0; ``exit`` equal to ``start`` copies
        nothing. 1 and 3 by default; exit 6 or 7 for the larger models of the paper.
    ``placeholder`` (``tp`` only)
        ``zeros`` (default) or ``mean``: what the placeholder is to the first layer.
    ``max_length``
        Tokens of one whole prompt.
    ``dtype``
        ``float32`` (default), ``bfloat16`` or ``float16``.
    ``calibration``
        The hash of a calibration whose parameters hold where the spec gives none, or ``none``. By default the one that
        ships with slotrag for the backbone, if there is one.

    Passages and queries are encoded alike. Double quotes in a text become single ones; a text that is too long is cut
    at its end, the prompt never. `forward_seconds` is the time spent in the backbone so far, `postprocessing` what the
    calibration suggests.
    """

    def __init__(
        self,
        language_model: FrozenLM,
        *,
        spec: str,
        fingerprint: str,
        templates: Sequence[Template],
        layer: int,
        prepending: Prepending | None = None,
        max_length: int | None = None,
        postprocessing: Postprocessing | None = None,
    ) -> None:
        self.spec = spec
        self.fingerprint = fingerprint
        self.postprocessing = postprocessing
        self._language_model = language_model
        self._layer = layer
        self._prepending = prepending
        self.dimension = language_model.width(layer)
        backend = literal_tokenizer(language_model.tokenizer)
        longest = max_length or prompt_length(language_model)
        self._prompts = [
            QuotedTokens(language_model.tokenizer, backend, template, longest, placeholder=prepending is not None)
            for template in templates
        ]
        self.max_tokens = min(prompt.room for prompt in self._prompts)
        if self.max_tokens < 1:
            raise PromptTooLong(
                f"of the {longest} tokens that the model reads, the prompt leaves none for the text: use a shorter "
                "prompt, demonstration=none or a larger max_length"
            )
        self._text = PromptText(backend, self.max_tokens)
        self._models = [self._prefixed(prompt, layer) for prompt in self._prompts]
        self._budget, self._most = batch_limits(language_model.device.type)

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> OneWordEncoder:
        """Build ``prompteol[@BACKBONE]`` or ``tp[@BACKBONE]``; see the class for the parameters."""
        backbone = spec.backbone or DEFAULT_BACKBONE
        # The model is at hand before its weights are hashed: the first use of one fetches it.
        folder = models.resolve(backbone)
        weights = models.weights_sha256(backbone)
        spec, parameters, postprocessing = calibrated(spec, weights, models)
        reader = parameters.reader()
        reader.text("calibration", "none")
        prompt = reader.choice("prompt", "eol", list(PROMPTS))
        demonstration = reader.choice("demonstration", "none", ["none", *DEMONSTRATIONS])
        dtype = reader.choice("dtype", "float32", DTYPES)
        language_model = causal_model(folder, backbone, device=device, dtype=dtype)
        layer = layer_of(reader, -2, language_model, backbone, least=1)
        prepending = _prepending(reader, language_model) if spec.name == "tp" else None
        max_length = length_of(reader, language_model, backbone)
        reader.finish()

        templates = PROMPTS[prompt]
        if demonstration != "none":
            templates = tuple(template.demonstrated(*DEMONSTRATIONS[demonstration]) for template in templates)
        facts = {
            "method": "one-word",
            "version": _VERSION,
            "weights": weights,
            "tokenizer": models.tokenizer_sha256(backbone),
            "prompts": [[template.before, template.after] for template in templates],
            "layer": layer,
            "max_length": max_length,
        }
        if prepending is not None:
            # Copies above the layer that is read, or none at all, leave the same vectors.
            copied = range(prepending.copied.start, min(prepending.copied.stop, layer))
            facts["placeholder"] = prepending.placeholder
            facts["copied"] = [copied.start, copied.stop] if copied else []
        if dtype != "float32":
            facts["dtype"] = dtype
        return cls(
            language_model,
            spec=str(EncoderSpec(spec.name, backbone, spec.parameters)),
            fingerprint=fingerprint(facts),
            templates=templates,
            layer=layer,
            prepending=prepending,
            max_length=max_length,
            postprocessing=postprocessing,
        )

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return unit_rows(self.raw_vectors(texts))

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return unit_rows(self.raw_vectors(texts))

    def _prefixed(self, prompt: QuotedTokens, layer: int) -> PrefixedLM:
        prepending = self._prepending
        if prepending is None:
            return PrefixedLM(self._language_model, prompt.head, layer)
        return PrefixedLM(
            self._language_model, prompt.head, layer, copied=prepending.copied, placeholder=prepending.placeholder
        )

    def raw_vectors(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors before they are scaled to unit length: float32, shape (len(texts), dimension)."""
        # The raw states of several prompts are averaged, as MetaEOL does: a layer's average is then the average of
        # what `scan_states` gives, and a prompt to which the model reacts strongly counts more.
        return self._average(texts, [model.last_states for model in self._models], self.dimension)

    def _average(
        self,
        texts: Sequence[str],
        runs: Sequence[Callable[[Sequence[Sequence[int]]], torch.Tensor]],
        dimension: int,
    ) -> np.ndarray:
        """The mean over the prompts of what `runs` make of the texts' token lists: float32, (texts, dimension)."""
        import numpy as np

        cut = self._text.cut(texts)
        total = np.zeros((len(texts), dimension), dtype=np.float32)
        for prompt, run in zip(self._prompts, runs, strict=True):
            total += encode_in_batches(
                prompt.ids(cut),
                lambda token_lists, run=run: run(token_lists).cpu().numpy(),
                dimension,
                budget=self._budget,
                most=self._most,
            )
        return total / len(runs)

    def _all_layers(self, texts: Sequence[str]) -> np.ndarray:
        model = self._language_model
        if model.width(model.layers) != model.hidden_size:
            raise EncoderUnavailable("the states of this model's last layer are of another length than the others'")
        full = [self._prefixed(prompt, model.layers) for prompt in self._prompts]
        states = model.layers + 1

        def flat(run: PrefixedLM) -> Callable[[Sequence[Sequence[int]]], torch.Tensor]:
            return lambda token_lists: run.last_states_of_all_layers(token_lists).transpose(0, 1).flatten(1)

        rows = self._average(texts, [flat(run) for run in full], states * model.hidden_size)
        return rows.reshape(len(texts), states, model.hidden_size).transpose(1, 0, 2)


def scan_states(encoder: OneWordEncoder, texts: Sequence[str]) -> np.ndarray:
    """The read-out position's states at every layer, for choosing a layer by arithmetic.

    One full pass for each prompt, with the encoder's Token Prepending if it has any.

    Parameters
    ----------
    encoder : OneWordEncoder
    texts : sequence of str

    Returns
    -------
    float32, shape (layers + 1, len(texts), width)
        Not of unit length. Row k scaled to unit length equals the vectors of the encoder with ``layer=k`` (as long as
        its copies end below k, as the pass copies before all layers up to ``exit``).
    """
    return encoder._all_layers(texts)


def _prepending(reader: ParameterReader, language_model: FrozenLM) -> Prepending:
    layers = language_model.layers
    config = language_model.config.get_text_config()
    kind = (config.model_type, language_model.hidden_size, config.vocab_size)
    start = reader.integer("start", _START, least=1, most=layers)
    default = max(start, min(_AUTHORS_EXIT.get(kind, _EXIT), layers))
    end = reader.integer("exit", default, least=start, most=layers)
    return Prepending(range(start, end), reader.choice("placeholder", "zeros", PLACEHOLDERS))
