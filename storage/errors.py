"""The errors of storage that a user can act on. They know no SQL."""

from __future__ import annotations

from .. import SlotragError, UsageError


class LibraryMissing(SlotragError):
    """There is no library in the folder and none was to be made."""


class LibraryTooNew(SlotragError):
    """The library was written by a later version of slotrag."""


class LibraryDamaged(SlotragError):
    """A database file is not a database, or its pages are broken."""


class LibraryBusy(SlotragError):
    """Another process held a database longer than we wait."""


class LibraryReadOnly(SlotragError):
    """The library lies on a read-only disk and something was to be written."""


class DiskFull(SlotragError):
    """The disk has no room for a transaction; what was committed before stays."""


class DiskFailed(SlotragError):
    """The system refuses to open, read or write a file of the library; what was committed before stays."""


class UnknownCollection(UsageError):
    """No collection of that name."""
