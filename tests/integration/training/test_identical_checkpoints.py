"""Test that the final checkpoint of a killed and resumed training equals an undisturbed training's in every byte."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fabricated_training import make_run, stage
from forked_segments import ForkedSegments, run_main

from bloomery.contracts.segment import SegmentStatus

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

CASES: dict[str, dict[str, Any]] = {
    "one-process": {},
    "fp16": {"precision": "fp16", "checkpoint": {"every_iterations": 2, "asynchronous": True}},
    "momentum": {"precision": "fp32", "optimizer": {"kind": "sgd", "learning_rate": 0.01, "momentum": 0.9}},
    "replicas": {"data": 2, "checkpoint": {"every_iterations": 2, "asynchronous": True}},
    "tensor-and-stages": {"tensor": 2, "pipeline": 2},
}


def run_killed(arguments: Sequence[str], killed_iteration: int | None) -> None:
    """Run the program of a rank. Rank 0 kills itself after `killed_iteration` if it began before that iteration."""
    import training.loop.run_segment as module

    finish = module.finish_step

    def finish_step(run: Any, done: Any) -> Any:
        poll = finish(run, done)
        if os.environ["RANK"] == "0" and run.position.iteration == killed_iteration and run.first_iteration == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return poll

    module.finish_step = finish_step
    run_main(arguments)


def _files(checkpoint: Path) -> dict[str, bytes]:
    return {str(path.relative_to(checkpoint)): path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", CASES)
def test_the_final_checkpoint_of_a_killed_training_is_byte_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    configuration = stage(samples=80, **CASES[case])
    found = []
    for name, killed in (("undisturbed", None), ("killed", 5)):
        run = tmp_path / name
        with monkeypatch.context() as patch:
            segments = ForkedSegments(patch, run, make_run(run, configuration), run_killed)
            segments.plan = killed
            chain = segments.chain()
        last = chain[-1]
        assert [each.status for each in chain[:-1]] == ([] if killed is None else [SegmentStatus.CRASHED])
        assert last.checkpoint is not None
        # The kill may come before the asynchronous save after iteration 4 is complete.
        assert last.first_iteration in ((1,) if killed is None else (3, 5))
        found.append(_files(segments.paths.checkpoints / last.checkpoint))
    undisturbed, resumed = found
    assert "manifest.json" in undisturbed
    assert any("optim_states" in name for name in undisturbed)
    assert [name for name in undisturbed if undisturbed[name] != resumed.get(name)] == []
    assert undisturbed.keys() == resumed.keys()
