"""What can go wrong with encoders and that the user can act on. It knows no encoder."""

from __future__ import annotations

from .. import SlotragError, UsageError


class SpecError(UsageError):
    """A spec such as ``mean@minilm-l6:layer=3`` is put wrongly."""


class UnknownEncoder(UsageError):
    """No encoder of that name is installed."""


class UnknownParameter(UsageError):
    """An encoder was given a parameter that it does not have, or a value out of range."""


class EncoderUnavailable(SlotragError):
    """An encoder is registered but cannot be used here: its package or an extra is missing or broken."""


class PromptTooLong(EncoderUnavailable):
    """A prompt leaves no room for a text in what the model reads at once."""


class EncodingError(SlotragError):
    """A model gave something that is no vector (not a number, infinite)."""
