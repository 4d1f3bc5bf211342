"""How many tokens an encoder gives a model at once: what the spec asks for, else what suits the model.

It knows no encoder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UnknownParameter

if TYPE_CHECKING:
    from .backbones.frozen import FrozenLM

# Longer inputs are possible, but their attention takes gigabytes.
_LONGEST_BY_DEFAULT = 8192


def prompt_length(language_model: FrozenLM) -> int:
    """Tokens of one whole prompt where the spec does not say."""
    return min(language_model.window, _LONGEST_BY_DEFAULT)


def text_length(language_model: FrozenLM) -> int:
    """Tokens of one bare text: what the model's sentence-transformers configuration says, else its window."""
    longest = min(language_model.window, language_model.tokenizer.model_max_length or language_model.window)
    configuration: Path = language_model.folder / "sentence_bert_config.json"
    if configuration.is_file():
        stated = json.loads(configuration.read_text(encoding="utf-8")).get("max_seq_length")
        if isinstance(stated, int) and stated > 0:
            return min(stated, longest)
    return min(longest, _LONGEST_BY_DEFAULT)


def require_readable(max_length: int, language_model: FrozenLM, backbone: str) -> None:
    """Raise `slotrag.UsageError` where more tokens are asked for than the model reads."""
    if max_length > language_model.window:
        raise UnknownParameter(f"max_length is at most {language_model.window} for {backbone}, not {max_length}")
