"""One control poll an iteration: signals, the stop and save files, and the segment's time, agreed in ONE all-reduce.

Ranks that looked at a file on their own could disagree, and one in a save with the other in a step is a hang.
"""

from __future__ import annotations

import signal
from enum import IntEnum
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist

from bloomery.contracts.segment import SAVE_FILE, STOP_FILE
from training.loop.clock import SegmentClock


class Order(IntEnum):
    """What to do next; the greatest over the ranks wins."""

    GO = 0
    SAVE = 1
    TIME_LIMIT = 2
    STOP = 3


class ControlPlane:
    """Asks for orders. Rank 0 looks at files and the clock; every rank listens to signals."""

    def __init__(self, folder: Path, device: torch.device, clock: SegmentClock) -> None:
        self._folder = folder
        self._device = device
        self._clock = clock
        self._signalled = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True

    def _own_order(self) -> Order:
        if self._signalled:
            return Order.STOP
        if dist.get_rank() != 0:
            return Order.GO
        if (self._folder / STOP_FILE).exists():
            return Order.STOP
        if self._clock.is_over():
            return Order.TIME_LIMIT
        return Order.SAVE if (self._folder / SAVE_FILE).exists() else Order.GO

    def clear_save(self) -> None:
        """The save that was asked for is done."""
        if dist.get_rank() == 0:
            (self._folder / SAVE_FILE).unlink(missing_ok=True)

    def poll(self) -> Order:
        """The same order on every rank."""
        order = torch.tensor(int(self._own_order()), device=self._device)
        dist.all_reduce(order, op=dist.ReduceOp.MAX)
        return Order(int(order.item()))
