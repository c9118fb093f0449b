"""Keep the memory of tensors that were written for later tensors of the same size.

The blocks of a network have tensors of equal sizes. If each tensor got new memory, the system would have to clear every
page first. On some machines, this takes longer than the write.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Sequence

import torch


class WeightMemory:
    """Memory that is free, by its size. Several threads may use this object at the same time."""

    def __init__(self, sizes: Iterable[int]) -> None:
        """Prepare for one `take` of each of these sizes in bytes."""
        self._needed = Counter(sizes)
        self._free: dict[int, list[torch.Tensor]] = {}
        """Memory as tensors of bytes."""
        self._lock = threading.Lock()

    def take(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return an uninitialised tensor."""
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            self._needed[size] -= 1
            free = self._free.get(size)
            flat = free.pop() if free else torch.empty(size, dtype=torch.uint8)
        return flat.view(dtype).view(tuple(shape))

    def give(self, tensor: torch.Tensor) -> None:
        """Keep the memory of a tensor that is not needed any more, if a later tensor has its size."""
        storage = tensor.untyped_storage()
        with self._lock:
            free = self._free.setdefault(storage.nbytes(), [])
            if len(free) < self._needed[storage.nbytes()]:
                free.append(torch.empty(0, dtype=torch.uint8).set_(storage))
