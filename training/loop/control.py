"""One control poll an iteration: signals, the stop and save files, the segment's time, what the guards of each rank ask
for, the ranks' work and what else they must agree on, in ONE all-reduce.

Ranks that looked at a file on their own could disagree, and one in a save with the other in a step is a hang.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist

from bloomery.contracts.segment import SAVE_FILE, STOP_FILE, clear_request
from training.checkpoint.collective_calls import from_rank_0
from training.loop.energy import Energy
from training.loop.segment_deadline import SegmentDeadline

NO_ENERGY = Energy()


class Order(IntEnum):
    """What to do next; the greatest over the ranks wins."""

    GO = 0
    SAVE = 1
    TIME_LIMIT = 2
    STOP = 3
    ROLL_BACK = 4
    """A guard wants to go back to an earlier checkpoint."""
    FAIL = 5
    """A guard ends the training."""

    @property
    def ends(self) -> bool:
        """Whether the segment ends."""
        return self > Order.SAVE


@dataclass(frozen=True)
class Report:
    """What a rank says in a poll."""

    verdict: Order = Order.GO
    """Of its guards."""
    work_seconds: float = 0.0
    """Time that it computed in the last step's forward and backward passes."""
    written: bool = True
    """Its part of the checkpoint that is being saved is on disk."""
    energy: Energy = NO_ENERGY
    """That it measured in this segment."""


@dataclass(frozen=True)
class Poll:
    """What all ranks know after a poll."""

    order: Order
    work_seconds: tuple[float, ...]
    """Of each rank."""
    written: bool
    """On every rank."""
    energy: Energy
    """Of all nodes."""


class ControlPlane:
    """Asks for orders. Rank 0 looks at files and the clock; every rank listens to signals."""

    def __init__(self, folder: Path, device: torch.device, deadline: SegmentDeadline) -> None:
        self._folder = folder
        self._device = device
        self._deadline = deadline
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
        if self._deadline.is_over():
            return Order.TIME_LIMIT
        return Order.SAVE if (self._folder / SAVE_FILE).exists() else Order.GO

    def clear_save(self) -> None:
        """The save that was asked for is done. Collective. Raises InputError where the request is a folder."""
        from_rank_0(lambda: clear_request(self._folder / SAVE_FILE))

    def poll(self, report: Report | None = None) -> Poll:
        """The same answer on every rank. Collective."""
        own = report or Report()
        rank, world = dist.get_rank(), dist.get_world_size()
        # A slot for each rank and sums, so that one reduction carries all: 3 kB for 384 ranks, exact in float64.
        orders, seconds = [0.0] * world, [0.0] * world
        orders[rank], seconds[rank] = float(max(self._own_order(), own.verdict)), own.work_seconds
        energy = own.energy
        sums = [float(own.written), energy.kwh, energy.co2_kg, float(energy.nodes), energy.estimated_kwh]
        values = torch.tensor([*orders, *seconds, *sums], dtype=torch.float64, device=self._device)
        dist.all_reduce(values)
        said = values.tolist()
        written, kwh, co2, nodes, estimated = said[2 * world :]
        return Poll(
            order=Order(int(max(said[:world]))),
            work_seconds=tuple(said[world : 2 * world]),
            written=round(written) == world,
            energy=Energy(kwh, co2, round(nodes), estimated),
        )
