"""Collectives between tensor-parallel ranks, and a timer of how long a rank spends in them.

A slow rank makes the other ranks wait in collectives. So a rank's own work is the time of its forward and backward
passes minus its time in collectives.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist


class CollectiveTimer:
    """Timer that sums up seconds. It uses the clock on a CPU, where collectives block, and CUDA events on a GPU."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._pending: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def running(self, device: torch.device) -> Iterator[None]:
        """Time the enclosed work on tensors of `device`, such as a collective."""
        if device.type == "cuda":
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            before.record()
            yield
            after.record()
            self._pending.append((before, after))
            return
        started = time.perf_counter()
        yield
        self._seconds += time.perf_counter() - started

    def take(self) -> float:
        """Return the seconds measured since the last call. Wait for timed work that is still queued on a GPU."""
        for before, after in self._pending:
            after.synchronize()
            self._seconds += before.elapsed_time(after) / 1000.0
        seconds, self._seconds, self._pending = self._seconds, 0.0, []
        return seconds


waited = CollectiveTimer()
"""Timer of the tensor-parallel collectives of this process."""


def all_reduce(x: torch.Tensor, group: dist.ProcessGroup, op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> None:
    """Reduce `x` in place over the group. The result is bit-equal on every rank."""
    with waited.running(x.device):
        dist.all_reduce(x, op=op, group=group)


def all_gather(x: torch.Tensor, group: dist.ProcessGroup, dimension: int) -> torch.Tensor:
    """Return the ranks' parts, which have equal shapes, joined along `dimension` in the order of ranks."""
    dimension %= x.dim()
    joined = x.new_empty(dist.get_world_size(group), *x.shape)
    with waited.running(x.device):
        dist.all_gather_into_tensor(joined.view(-1), x.contiguous().view(-1), group=group)
    # This makes no copy if all dimensions before `dimension` have size 1, as with a micro-batch of one sample.
    return joined.movedim(0, dimension).flatten(dimension, dimension + 1)


def reduce_scatter(x: torch.Tensor, group: dist.ProcessGroup, dimension: int) -> torch.Tensor:
    """Sum `x` over the ranks and return this rank's part along `dimension`.

    The size of `dimension` must be a multiple of the group's size.
    """
    split = x.unflatten(dimension, (dist.get_world_size(group), -1))  # type: ignore[no-untyped-call]
    parts = split.movedim(dimension, 0).contiguous()
    own = torch.empty_like(parts[0])
    with waited.running(x.device):
        dist.reduce_scatter_tensor(own.view(-1), parts.view(-1), group=group)
    return own
