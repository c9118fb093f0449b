"""Return freed memory to the system.

glibc keeps freed memory for later allocations. If allocations of many sizes alternate, as in the forward pass of a
large model, the kept memory grows with every layer, although the program uses the same amount in each of them.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any


def return_memory() -> None:
    """Return the memory that the program has freed. Do nothing with another C library than glibc."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    """Return glibc's `malloc_trim`; None if there is none."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
