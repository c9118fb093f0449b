"""Run segments with the real launcher, torchrun and program of each rank, and make one rank hang.

The rank stops inside a forward pass: either its main thread waits for ever, or the whole process is stopped by SIGSTOP.

The program of a rank is `python -m planted_hang ARGUMENTS_OF_TRAINING_LOOP_MAIN`, with the hang in the environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

_PLANT = "BLOOMERY_TEST_PLANTED_HANG"


@dataclass(frozen=True)
class PlantedHang:
    """Hang of one rank."""

    rank: int
    iteration: int
    """Iteration in which the rank hangs."""
    once: str
    """File that is created before the hang. The rank does not hang if it exists."""
    stops: bool = False
    """Whether the process is stopped by SIGSTOP. If not, its main thread waits for ever."""


def run_planted(arguments: list[str], plant: PlantedHang) -> None:
    """Run the program of a rank with these arguments."""
    from training.loop.main import main
    from training.loop.rank_progress import PROGRESS
    from training.model.block import TransformerBlock

    forward = TransformerBlock.forward

    def hanging(block: Any, *given: Any, **named: Any) -> Any:
        if PROGRESS.iteration == plant.iteration and not Path(plant.once).exists():
            Path(plant.once).touch()
            if plant.stops:
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                wait_for_ever()
        return forward(block, *given, **named)

    sys.argv[1:] = arguments
    if int(os.environ["RANK"]) == plant.rank:
        TransformerBlock.forward = hanging  # type: ignore[method-assign]
    main()


def wait_for_ever() -> None:
    """Wait for an event that never happens. Stacks show the name of this function."""
    threading.Event().wait()


@contextlib.contextmanager
def planted(plant: PlantedHang) -> Iterator[None]:
    """Make `launch_segment` start ranks with this hang inside the block."""
    from training.segments import launch

    start_command = launch.start_command

    def torchrun(*given: Any) -> list[str]:
        return ["planted_hang" if each == "training.loop.main" else each for each in start_command(*given)]

    search = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {_PLANT: json.dumps(asdict(plant)), "PYTHONPATH": search, "CUDA_VISIBLE_DEVICES": ""}
    with patch.object(launch, "start_command", torchrun), patch.dict(os.environ, environment):
        yield


if __name__ == "__main__":
    run_planted(sys.argv[1:], PlantedHang(**json.loads(os.environ[_PLANT])))
