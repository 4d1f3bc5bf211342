"""What encoders that put a prompt around a text for a causal model share: its parts, calibration, layer and length.

It knows no prompt and no way to read a vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .backbones.frozen import FrozenLM
from .base import Encoder
from .errors import UnknownParameter
from .lengths import prompt_length, require_readable
from .prompt_tokens import PromptText
from .spec import EncoderSpec, ParameterReader

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore
    from .postprocessing import Postprocessing

DEFAULT_BACKBONE = "smollm2-135m"


class PromptedEncoder(Encoder):
    """An encoder over a frozen causal language model whose prompt a text is put into.

    `postprocessing` is what its calibration suggests.
    """

    postprocessing: Postprocessing | None = None
    _language_model: FrozenLM
    _text: PromptText

    @property
    def forward_seconds(self) -> float:
        """Seconds spent in the backbone's forward passes so far."""
        return self._language_model.forward_seconds

    def unembedding(self) -> np.ndarray:
        """The backbone's unembedding matrix, float32, shape (vocabulary, width of the last layer)."""
        return self._language_model.unembedding()

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return self._text.offsets(text)


def calibrated(
    spec: EncoderSpec, weights: str, models: ModelStore
) -> tuple[EncoderSpec, EncoderSpec, Postprocessing | None]:
    """Apply the calibration that a spec names or that ships for its encoder and weights.

    Returns
    -------
    spec : EncoderSpec
        The spec, its calibration named, so that it means the same under a slotrag that ships another one.
    parameters : EncoderSpec
        The same with the calibration's parameters where it gives none itself.
    postprocessing : Postprocessing or None
    """
    from .calibration import find_calibration, shipped_for

    given = dict(spec.parameters)
    name = given.get("calibration") or shipped_for(spec.name, weights) or "none"
    given["calibration"] = name
    named = EncoderSpec(spec.name, spec.backbone, tuple(given.items()))
    if name == "none":
        return named, named, None
    calibration = find_calibration(name, models)
    calibration.require_for(spec.name, weights)
    merged = EncoderSpec(spec.name, spec.backbone, tuple({**calibration.parameters, **given}.items()))
    return named, merged, calibration.postprocessing


def causal_model(folder: object, backbone: str, *, device: str, dtype: str) -> FrozenLM:
    """The model in `folder`, which is to be a decoder."""
    language_model = FrozenLM.load(str(folder), device=device, dtype=dtype)
    if not language_model.decoder:
        raise UnknownParameter(
            f"{backbone} is not a causal language model, which this encoder needs: name one such as "
            f"@{DEFAULT_BACKBONE}, or use mean@{backbone}"
        )
    return language_model


def layer_of(reader: ParameterReader, default: int, language_model: FrozenLM, backbone: str, *, least: int = 0) -> int:
    """The parameter ``layer`` as an index from 0 to the number of layers."""
    states = language_model.layers + 1
    layer = reader.integer("layer", default)
    if not (-states <= layer < states and layer % states >= least):
        raise UnknownParameter(
            f"layer is between {least} and {states - 1}, or {least - states} and -1 from the end, for {backbone}, "
            f"not {layer}"
        )
    return layer % states


def length_of(reader: ParameterReader, language_model: FrozenLM, backbone: str) -> int:
    """The parameter ``max_length``, by default what the model reads at once."""
    asked = reader.integer("max_length", 0, least=0)
    require_readable(asked, language_model, backbone)
    return asked or prompt_length(language_model)
