"""Return freed memory to the system.

glibc keeps freed memory for later allocations. If allocations of many sizes alternate, as in the forward pass of a
large model, the kept memory grows with every layer, although the program uses the same amount in each of them.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

_LEAST_BYTES = 1 << 24
"""Size of a layer from which on the kept memory matters more than the time of the call."""


def return_memory(layer_bytes: int) -> None:
    """Return the memory that the program has freed.

    Do nothing if a layer of `layer_bytes` is small, because the call takes some milliseconds, or with another C library
    than glibc.
    """
    trim = _malloc_trim() if layer_bytes >= _LEAST_BYTES else None
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    """Return glibc's `malloc_trim`; None if there is none."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
