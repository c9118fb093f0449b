"""Run the chain of segments of a training, and plant a NaN in the state of one rank.

The launcher, the program of every rank and the training are the real ones. A rank's program is started either by
torchrun, as in a real run, or by a fork of a process that has imported torch already, which saves 4 s a segment.

As a program, this file is a rank's program: `python -m planted_nan ARGUMENTS_OF_TRAINING_LOOP_MAIN`.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fabricated_training import make_run
from ranks import RankError, run_ranks

from bloomery.config.stages import TrainStage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus

TENSORS = ("weights", "masters", "exp_avg", "exp_avg_sq")
_PLANT = "BLOOMERY_TEST_PLANTED_NAN"


@dataclass(frozen=True)
class Plant:
    """One NaN to plant."""

    tensor: str
    """One of `TENSORS`."""
    iteration: int
    """Iteration after which the NaN is planted."""
    rank: int
    mark: str
    """File that the rank creates when it has planted the NaN."""
    seed: int = 0
    """Seed that chooses the parameter and the element."""
    always: bool = False
    """Plant the NaN again whenever the iteration is repeated."""


def plant_nan(run: Any, plant: Plant) -> str:
    """Set one random element of the kind `plant.tensor` on this rank to NaN. Return the name of its parameter."""
    from whole_model import held_here

    base = run.trainer.engine.optimizer.optimizer
    flats = [flat for group in base.param_groups for flat in group["params"]]
    # With ZeRO, a rank holds the optimizer state of a part of the parameters.
    held = [(p, weight) for p, weight in held_here(run.trainer) if weight._hp_mapping is not None]
    drawn = random.Random(plant.seed)
    parameter, weight = drawn.choice(held)
    mapping = weight._hp_mapping
    if plant.tensor == "weights":
        tensor = weight.data.view(-1)
    elif plant.tensor == "masters":
        tensor = mapping.hp_fragment.data
    else:
        there = mapping.hp_fragment_address
        tensor = base.state[flats[mapping.param_group_index]][plant.tensor].narrow(0, there.start, there.numel)
    tensor[drawn.randrange(tensor.numel())] = float("nan")
    return str(parameter.name)


def run_planted(arguments: Sequence[str], plant: Mapping[str, Any] | None) -> None:
    """Run the program of a rank. The rank of `plant` plants the NaN after the iteration of `plant`."""
    from training.loop import main, run_segment

    given = None if plant is None else Plant(**plant)
    train_step = run_segment.train_step

    def planted_step(run: Any, planned: Any) -> Any:
        done = train_step(run, planned)
        if given is not None and (run.position.iteration, run.trainer.mesh.rank) == (given.iteration, given.rank):
            mark = Path(given.mark)
            if given.always or not mark.exists():
                mark.write_text(plant_nan(run, given))
        return done

    run_segment.train_step = planted_step
    sys.argv = ["training.loop.main", *arguments]
    main.main()


def run_chain(
    run: Path, configuration: TrainStage, plant: Plant | None, *, forks: bool = True, most: int = 20
) -> list[Segment]:
    """Run the segments of a training in `run` until it has finished. Return all segments.

    Args:
        run: folder of the run.
        configuration: configuration of the training.
        plant: NaN to plant; None for an undisturbed training.
        forks: whether the ranks are forked. If not, torchrun starts them.
        most: largest number of segments.

    Raises:
        BloomeryError: the launcher ended the chain with an error, so a person would have to act.
        AssertionError: the training has not finished after `most` segments.
    """
    from training.processes.run_processes import ProcessesEnd
    from training.segments import launch

    config, paths, found = make_run(run, configuration), RunPaths(run), []
    value = None if plant is None else asdict(plant)

    def fork(command: Sequence[str], *_others: object) -> ProcessesEnd:
        arguments = list(command)[list(command).index("training.loop.main") + 1 :]
        try:
            run_ranks(run_planted, configuration.training.parallel.world_size, arguments, value)
        except RankError:
            return ProcessesEnd(1)
        return ProcessesEnd(0)

    def torchrun(*given: Any) -> list[str]:
        return ["planted_nan" if each == "training.loop.main" else each for each in start_command(*given)]

    start_command = launch.start_command
    replaced = patch.object(launch, "run_processes", fork) if forks else patch.object(launch, "start_command", torchrun)
    search = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with replaced, patch.dict(os.environ, {_PLANT: json.dumps(value), "PYTHONPATH": search}):
        for number in range(1, most + 1):
            found.append(launch.launch_segment(config, run, number, paths.segments / f"{number}.json"))
            if found[-1].status is SegmentStatus.FINISHED:
                return found
    raise AssertionError(f"the training has not finished after {most} segments")


if __name__ == "__main__":
    run_planted(sys.argv[1:], json.loads(os.environ[_PLANT]))
