"""Test that a real training on a cluster leaves a complete timeline, whose shares add up to the whole time."""

from __future__ import annotations

import pytest
from slurm_cluster import SlurmCluster
from workflow_support import Workflow

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import valid_records
from monitoring.goodput import TimeUse
from monitoring.timeline import read_timeline

pytestmark = pytest.mark.cluster


def test_the_time_of_a_real_training_is_divided_without_a_rest(cluster: SlurmCluster, undisturbed: Workflow) -> None:
    paths = RunPaths(undisturbed.run_folder)
    found = read_timeline(paths, 0.0, finished=True)
    steps, validations = valid_records(paths.logs / "metrics.jsonl")
    assert [(each.segment, each.status, each.first_iteration, each.last_iteration) for each in found.attempts] == [
        (1, "finished", 1, len(steps))
    ]
    (attempt,) = found.attempts
    assert attempt.job in cluster.squeue("--noheader", "--states=all", "--format=%i").split()
    assert attempt.submitted is not None
    assert attempt.started is not None
    assert attempt.submitted <= attempt.started
    assert all(each.seconds for each in validations)
    assert found.goodput is not None
    used = found.goodput.seconds
    assert sum(used.values()) == pytest.approx(found.goodput.total, abs=1e-6)
    # Times of records are whole seconds, so durations may have been reduced by up to two seconds in all.
    assert used[TimeUse.TRAINING] == pytest.approx(sum(step.seconds for step in steps), abs=2.0)
    assert used[TimeUse.START] > 0
    assert used[TimeUse.SAVES] > 0
    assert used[TimeUse.REDONE] == used[TimeUse.FAULT] == used[TimeUse.UNKNOWN] == 0
