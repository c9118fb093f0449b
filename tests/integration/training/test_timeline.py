"""Test that a real training leaves a complete timeline, whose shares add up to the whole time."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from training_launcher import Launcher

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import valid_records
from monitoring.goodput import TimeUse
from monitoring.timeline import read_timeline

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def test_a_killed_and_a_finished_start_add_up_to_the_whole_time(launcher: Callable[..., Launcher]) -> None:
    training = launcher()
    process = training.start()
    training.wait_for_iteration(3, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert training.segment()["status"] == "finished"
    paths = RunPaths(training.run)
    steps, validations = valid_records(paths.logs / "metrics.jsonl")
    found = read_timeline(paths, 0.0, finished=True)
    assert [(each.status, each.segment) for each in found.attempts] == [(None, 1), ("finished", 1)]
    killed, finished = found.attempts
    assert (killed.first_iteration, finished.last_iteration) == (1, len(steps))
    assert killed.last_iteration >= 3
    assert all(each.seconds for each in validations)
    assert finished.end_saves > 0
    assert found.goodput is not None
    used = found.goodput.seconds
    assert sum(used.values()) == pytest.approx(found.goodput.total, abs=1e-6)
    assert killed.lost == pytest.approx(used[TimeUse.REDONE], abs=2.0)
    # Times of records are whole seconds, so the durations of an attempt may be reduced by up to two seconds.
    assert used[TimeUse.TRAINING] == pytest.approx(sum(step.seconds for step in steps), abs=4.0)
    assert used[TimeUse.START] > 0
    assert used[TimeUse.UNKNOWN] == 0
