"""Peak memory of this process."""

from __future__ import annotations

import resource

import torch


def peak_memory_bytes(device: torch.device) -> int:
    """Return the most memory that this process has held at once: of the GPU if `device` is one, else main memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    # Linux reports KiB.
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
