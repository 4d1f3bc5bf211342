"""What can go wrong with a model, for the user to act on. Each message is one sentence that says what to do."""

from __future__ import annotations

from ... import SlotragError, UsageError


class ModelMissing(SlotragError):
    """A model is not on this machine and may not, or cannot, be fetched now."""


class FetchFailed(ModelMissing):
    """Fetching was tried and failed: no network, an unknown version, a refused download."""


class ModelDamaged(SlotragError):
    """A file is not the one its name stands for: another sha256, cut short, not of the format."""


class NoSpace(SlotragError):
    """The disk has no room for a model."""


class UnknownModel(UsageError):
    """A name that is neither in the catalogue, nor a folder, nor of the form ``owner/name``."""


class UnusableModel(UsageError):
    """A folder or repository that cannot be loaded: no safetensors, no configuration, of the wrong kind."""
