"""What the machine has: memory, cores, and how fast it runs a model. It recommends nothing (the catalogue does)."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .frozen import FrozenLM

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """Memory that this process may use: the machine's, or its container's limit where that is lower."""
    total = _windows_memory() if sys.platform == "win32" else _posix_memory()
    for name in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(Path(name).read_text()))
    return total


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def measure_tokens_per_second(model: FrozenLM, tokens: int = 12) -> float:
    """Speed of writing with `model`, one token after the other, in tokens a second.

    Parameters
    ----------
    model : FrozenLM
        Loaded with ``causal=True``.
    tokens : int
        How many are written; the first, which warms up, does not count.
    """
    import torch

    module = model.module()
    # transformers renamed the argument; both names are in use.
    cache_name = "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"
    step = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    cache = None
    started = 0.0
    with torch.no_grad():
        for number in range(tokens + 1):
            output = module(input_ids=step, use_cache=True, **{cache_name: cache})
            cache = getattr(output, "past_key_values", None)
            step = output.logits[:, -1:].argmax(-1)
            step.item()  # waits for a GPU
            if number == 0:
                started = time.perf_counter()
    return tokens / (time.perf_counter() - started)


def _posix_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _windows_memory() -> int:
    class Status(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "page", "page_free", "virtual", "virtual_free")),
            ("extended", ctypes.c_ulonglong),
        )

    status = Status(length=ctypes.sizeof(Status))
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined]
    return int(status.total)
