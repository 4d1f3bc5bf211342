"""The reader interface: a file in, a `Document` out. It knows no format and no library.

A plug-in author implements `Reader` (this page is the whole contract) and registers the class under the entry-point
group ``slotrag.readers``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from ..documents import Document


class Reader(ABC):
    """Reads one kind of file.

    The libraries a reader needs are imported inside `read`: every reader is imported whenever a file's kind is found.

    Attributes
    ----------
    name : str
        The kind in a user's words, ``PDF``, for messages.
    version : str
        Changes whenever `read` gives another document for the same file; files are then read anew.
    media_types : tuple of str
        What it reads; the first is the usual one.
    suffixes : tuple of str
        Lower case with the dot.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    media_types: ClassVar[tuple[str, ...]]
    suffixes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def sniff(self, head: bytes, path: Path) -> float:
        """How surely the file is of this kind by its content: 0 (it cannot be) to 1 (certain).

        Parameters
        ----------
        head : bytes
            The first 8,192 bytes, or the whole file where it is shorter; never empty.
        path : Path
            For formats that show themselves elsewhere, such as the members of a zip archive.

        Notes
        -----
        A format without marks of its own (plain text, CSV) returns 0.2 for whatever may be one; a file name's suffix
        adds 0.5 to a score above 0, so that such formats are told apart by it.
        """

    @abstractmethod
    def read(self, path: Path) -> Document:
        """Read the file.

        Raises
        ------
        ReadError
            Broken, protected by a password, undecodable or too large.
        NoText
            Whole, but without text.
        """

    def parts(self, path: Path) -> Iterator[Document]:
        """The file as documents one after the other, where it may be too large for one; by default one, `read`'s.

        Each says where it begins (``first_line``, ``first_character``), all have the same title. Errors as in `read`.
        """
        yield self.read(path)
