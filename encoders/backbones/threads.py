"""How many threads torch uses, for the whole process. It knows no model."""

from __future__ import annotations

import sys

from ... import UsageError

_threads: int | None = None
_automatic_threads: int | None = None


def set_threads(n: int | None) -> None:
    """Use `n` threads in a forward pass; None (or 0) leaves the choice to torch.

    Holds for the whole process. With other work on the machine fewer threads than cores are faster.
    """
    global _threads
    if n is not None and n < 0:
        raise UsageError("The number of threads must be 0 (automatic) or more.")
    _threads = n or None
    if "torch" in sys.modules:
        apply_threads()


def apply_threads() -> None:
    """Give torch, once it is imported, the number that was chosen."""
    global _automatic_threads
    import torch

    if _automatic_threads is None:
        _automatic_threads = torch.get_num_threads()
    wanted = _threads or _automatic_threads
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)
