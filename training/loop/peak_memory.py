"""Peak memory of this process."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")


def peak_memory_bytes(device: torch.device) -> int:
    """Return the most memory that this process has held at once, in bytes.

    It is the memory of the GPU if `device` is a GPU, and main memory otherwise.
    """
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_main_memory_bytes()


def peak_main_memory_bytes() -> int:
    """Return the most main memory that this process has held at once, in bytes."""
    if _STATUS.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
        if found is not None:
            return 1024 * int(found.group(1))
    # On systems without /proc, the value may include memory of the program that started this process, because exec does
    # not reset it. Linux reports KiB.
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
