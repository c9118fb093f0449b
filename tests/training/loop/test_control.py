"""Test that all ranks agree on the next action, whichever rank receives the order."""

from __future__ import annotations

import os
import signal
from dataclasses import astuple
from pathlib import Path
from unittest.mock import patch

import pytest
from ranks import run_ranks

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _listen(folder: Path) -> list[tuple[str, object]]:
    import torch
    import torch.distributed as dist

    from training.loop.control import ControlPlane, Order, Report
    from training.loop.energy import Energy
    from training.loop.segment_deadline import SegmentDeadline

    dist.init_process_group("gloo")
    rank, heard = dist.get_rank(), []

    def plane(name: str, clock: SegmentDeadline | None = None) -> ControlPlane:
        return ControlPlane(folder / name, torch.device("cpu"), clock or SegmentDeadline(None))

    own = folder / f"seen-by-{rank}"
    own.mkdir()
    control = plane(own.name)
    heard.append(("nothing", control.poll().order))
    if rank == 0:
        (own / "stop").touch()
    heard.append(("a stop file that one rank sees", control.poll().order))
    control = plane("both")
    if rank == 0:
        (folder / "both").mkdir()
        (folder / "both" / "save").touch()
    dist.barrier()
    heard.append(("a save file", control.poll().order))
    dist.barrier()
    control.clear_save()
    heard.append(("once", control.poll().order))
    heard.append(("the time is up", plane("none", SegmentDeadline(0.0)).poll().order))
    verdict = Order.ROLL_BACK if rank == 2 else Order.GO
    energy = Energy(0.25, 0.5, 1, 0.125 * rank)
    said = control.poll(
        Report(verdict, work_seconds=1.5 + rank, written=rank != 1, energy=energy, memory_bytes=2**40 + rank)
    )
    heard.append(("a guard of one rank", said.order))
    heard.append(("work", said.work_seconds))
    heard.append(("written", said.written))
    heard.append(("energy", astuple(said.energy)))
    heard.append(("most memory", said.memory_bytes))
    heard.append(("all written", control.poll().written))
    collectives = dist.group.WORLD._get_sequence_number_for_group
    before = collectives()
    with patch.object(dist, "all_reduce", wraps=dist.all_reduce) as all_reduce:
        control.poll()
    heard.append(("collectives of a poll, all-reduces", (collectives() - before, all_reduce.call_count)))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        control = plane("none")
        if rank == 2:
            os.kill(os.getpid(), number)
        heard.append((f"{number.name} to one rank", control.poll().order))
    dist.destroy_process_group()
    return heard


def test_every_rank_follows_an_order_that_one_rank_receives(tmp_path: Path) -> None:
    heard = run_ranks(_listen, 3, tmp_path)
    assert heard[0] == heard[1] == heard[2]
    assert dict(heard[0]) == {
        "nothing": 0,
        "a stop file that one rank sees": 3,
        "a save file": 1,
        "once": 0,
        "the time is up": 2,
        "a guard of one rank": 4,
        "work": (1.5, 2.5, 3.5),
        "written": False,
        "energy": (0.75, 1.5, 3, 0.375),
        "most memory": 2**40 + 2,
        "all written": True,
        "collectives of a poll, all-reduces": (1, 1),
        "SIGTERM to one rank": 3,
        "SIGINT to one rank": 3,
        "SIGUSR1 to one rank": 3,
    }
