"""The control poll: one all-reduce per iteration that carries everything on which the ranks must agree.

It carries signals, the stop and save files, the segment's deadline, the guards' verdicts, the ranks' compute times, the
state of a checkpoint and the energy. If each rank read the files alone, the ranks could disagree. Then one rank would
save while another trains, and both would hang.
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
    """Order for the next step. The highest value of all ranks wins."""

    GO = 0
    SAVE = 1
    TIME_LIMIT = 2
    STOP = 3
    ROLL_BACK = 4
    """A guard requests a roll-back to an earlier checkpoint."""
    FAIL = 5
    """A guard ends the training."""

    @property
    def ends(self) -> bool:
        """Whether this order ends the segment."""
        return self > Order.SAVE


@dataclass(frozen=True)
class Report:
    """Input of one rank to a poll."""

    verdict: Order = Order.GO
    """Order of this rank's guards."""
    work_seconds: float = 0.0
    """Seconds that this rank computed in the forward and backward passes of the last step."""
    written: bool = True
    """Whether this rank's part of the checkpoint that is being saved is on disk. True if no save is in progress."""
    energy: Energy = NO_ENERGY
    """Energy that this rank measured in this segment."""
    memory_bytes: int = 0
    """Peak memory of this rank so far."""


@dataclass(frozen=True)
class Poll:
    """Result of a poll, equal on all ranks."""

    order: Order
    work_seconds: tuple[float, ...]
    """Seconds that each rank computed in the last step."""
    written: bool
    """Whether every rank has written its part of the checkpoint that is being saved."""
    energy: Energy
    """Energy of all nodes in this segment."""
    memory_bytes: int
    """Highest peak memory of all ranks so far."""


class ControlPlane:
    """Poll for orders. Rank 0 reads the files and the clock, and every rank handles signals."""

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
        """Return the order of this rank, without the guards' verdict."""
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
        """Remove the save file after the requested save. Collective. Raises InputError if a folder has that name."""
        from_rank_0(lambda: clear_request(self._folder / SAVE_FILE))

    def poll(self, report: Report | None = None) -> Poll:
        """Combine the reports of all ranks and return the same result on every rank. Collective."""
        own = report or Report()
        rank, world = dist.get_rank(), dist.get_world_size()
        # One reduction suffices, because each rank writes its values into its own slots, and a few values are summed.
        # The tensor has about 9 kB for 384 ranks, and float64 holds all values exactly.
        orders, seconds, memory = [0.0] * world, [0.0] * world, [0.0] * world
        orders[rank], seconds[rank] = float(max(self._own_order(), own.verdict)), own.work_seconds
        memory[rank] = float(own.memory_bytes)
        energy = own.energy
        sums = [float(own.written), energy.kwh, energy.co2_kg, float(energy.nodes), energy.estimated_kwh]
        values = torch.tensor([*orders, *seconds, *memory, *sums], dtype=torch.float64, device=self._device)
        dist.all_reduce(values)
        said = values.tolist()
        written, kwh, co2, nodes, estimated = said[3 * world :]
        return Poll(
            order=Order(int(max(said[:world]))),
            work_seconds=tuple(said[world : 2 * world]),
            written=round(written) == world,
            energy=Energy(kwh, co2, round(nodes), estimated),
            memory_bytes=int(max(said[2 * world : 3 * world])),
        )
