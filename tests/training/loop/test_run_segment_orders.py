"""Test save requests to a running training and the number of times that the loop polls for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened

from bloomery.config.stages import TrainStage
from bloomery.contracts.segment import SAVE_FILE, Segment, SegmentStatus

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _asked(configuration: TrainStage, folder: Path, iterations: list[int]) -> dict[str, Any]:
    """Run a segment that gets a save request during each iteration of `iterations`."""
    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        step, poll, polls = run.trainer.engine.train_batch, run.control.poll, Counter[int]()
        request = run.paths.control / SAVE_FILE
        request.parent.mkdir(parents=True)
        waits: list[int] = []

        def asked(batches: object) -> object:
            if request.exists():
                waits.append(run.position.iteration)
            if run.position.iteration + 1 in iterations:
                request.touch()
            return step(batches)

        def counted(report: object) -> object:
            polls[run.position.iteration] += 1
            return poll(report)

        run.trainer.engine.train_batch, run.control.poll = asked, counted
        segment = train(run)
    return {"segment": segment, "polls": dict(polls), "waits": waits, "left": request.exists()}


def test_each_save_request_causes_one_immediate_save(tmp_path: Path) -> None:
    # Iteration 3 is followed by a validation. The save at the end of the training serves the request of the last
    # iteration.
    configuration = stage(samples=64, checkpoint={"every_iterations": 100})
    (answer,) = run_ranks(_asked, 1, configuration, tmp_path, [2, 3, 5])
    segment: Segment = answer["segment"]
    assert (segment.status, segment.iteration) == (SegmentStatus.FINISHED, 5)
    assert (answer["waits"], answer["left"]) == ([], False)
    saved = sorted(path.parent.name for path in (tmp_path / "train" / "checkpoints").glob("*/manifest.json"))
    assert saved == ["step00000002", "step00000003", "step00000005"]
    # The loop polls at the start, after each iteration, and between the two validation sets.
    assert answer["polls"] == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 2}
