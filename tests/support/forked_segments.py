"""Run segments of training with the real launcher and the real program of each rank, but fork the ranks.

`ranks.run_ranks` starts the ranks instead of torchrun, which saves several seconds per segment. A test can
also change what a rank computes, as a broken device would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ranks import RankError, run_ranks

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus
from training.processes.run_processes import ProcessesEnd
from training.segments import launch


class ForkedSegments:
    """A run whose segments are launched in this process."""

    def __init__(self, patch: pytest.MonkeyPatch, run: Path, config: Path, program: Callable[..., None]) -> None:
        """Prepare to launch segments.

        Args:
            patch: used to replace the function that starts torchrun.
            run: folder of the run.
            config: configuration of the training stage.
            program: function at the top level of a test file that each rank calls with the arguments of
                `training.loop.main` and with `self.plan`. It must call `training.loop.main.main`.
        """
        self.paths, self.config = RunPaths(run), config
        self.plan: Any = None
        self._program = program
        patch.setattr(launch, "start_command", lambda training, _, arguments: [training, *arguments])
        patch.setattr(launch, "run_processes", self._run)

    def _run(self, command: Sequence[Any], *_others: object) -> ProcessesEnd:
        try:
            run_ranks(self._program, command[0].parallel.world_size, command[1:], self.plan)
        except RankError as error:
            print(error)
            return ProcessesEnd(1)
        return ProcessesEnd(0)

    def segment(self, number: int) -> Segment:
        """Run a segment as a rule of the workflow does."""
        return launch.launch_segment(self.config, self.paths.run, number, self.paths.segments / f"{number}.json")

    def chain(self, most: int = 10) -> list[Segment]:
        """Run segments until the training has finished, as the workflow does. Return all of them."""
        segments: list[Segment] = []
        while len(segments) < most and not (segments and segments[-1].status is SegmentStatus.FINISHED):
            segments.append(self.segment(len(segments) + 1))
        return segments


def run_main(arguments: Sequence[str]) -> None:
    """Run the program of a rank (`training.loop.main`) with these arguments."""
    import sys

    from training.loop.main import main

    sys.argv[1:] = arguments
    main()
