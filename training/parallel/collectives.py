"""The collectives between tensor-parallel ranks, and a clock of the time that a rank spends in them.

A slow rank makes the others wait here: its own work is the time of its passes without this one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist


class CollectiveTimer:
    """Seconds in tensor-parallel collectives: by the clock where they block, by CUDA events where they queue."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._pending: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def running(self, device: torch.device) -> Iterator[None]:
        """Around a collective on tensors of `device`."""
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
        """Seconds since the last call. Waits for the collectives in flight."""
        for before, after in self._pending:
            after.synchronize()
            self._seconds += before.elapsed_time(after) / 1000.0
        seconds, self._seconds, self._pending = self._seconds, 0.0, []
        return seconds


waited = CollectiveTimer()
"""This process's clock."""


def all_reduce(x: torch.Tensor, group: dist.ProcessGroup, op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> None:
    """Reduce over the group, in place; bit-equal on every rank."""
    with waited.running(x.device):
        dist.all_reduce(x, op=op, group=group)


def all_gather(x: torch.Tensor, group: dist.ProcessGroup, dimension: int) -> torch.Tensor:
    """The ranks' equal parts, joined along `dimension` in the order of ranks."""
    dimension %= x.dim()
    joined = x.new_empty(dist.get_world_size(group), *x.shape)
    with waited.running(x.device):
        dist.all_gather_into_tensor(joined.view(-1), x.contiguous().view(-1), group=group)
    # No copy where all dimensions before it are 1: sequences of a micro-batch of one sample.
    return joined.movedim(0, dimension).flatten(dimension, dimension + 1)


def reduce_scatter(x: torch.Tensor, group: dist.ProcessGroup, dimension: int) -> torch.Tensor:
    """This rank's part along `dimension`, which the group's size divides, of the sum over the ranks."""
    split = x.unflatten(dimension, (dist.get_world_size(group), -1))  # type: ignore[no-untyped-call]
    parts = split.movedim(dimension, 0).contiguous()
    own = torch.empty_like(parts[0])
    with waited.running(x.device):
        dist.reduce_scatter_tensor(own.view(-1), parts.view(-1), group=group)
    return own
