"""What can go wrong with a library that a user can act on. It knows no storage and no model."""

from __future__ import annotations

from .. import SlotragError


class FingerprintMismatch(SlotragError):
    """The encoder or the splitting at hand is not the one that a collection's passages were made with."""

    def __init__(self, collection: str, *, stored: str, current: str, command: str) -> None:
        self.collection, self.stored, self.current, self.command = collection, stored, current, command
        super().__init__(
            f"Collection {collection!r} was made with {stored}, now it is {current}: nothing was changed; "
            f"to make it anew run: {command}"
        )


class PassageMissing(SlotragError):
    """There is no passage of that id (any more)."""


class NothingToIndex(SlotragError):
    """No path was given and the collection follows no source."""


class IndexNotSaved(SlotragError):
    """The index file cannot be written: a full disk, no permission."""
