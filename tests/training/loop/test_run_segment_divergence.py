"""Test that a real training that diverges is rolled back, also if the divergence begins after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, records

from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import step_name
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus
from bloomery.contracts.skips import read_skips
from training.guards.incident import incident_files, read_incident

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

BATCH, HEALTHY = 8, 336
"""Samples of a batch; number of iterations before the learning rate is raised."""


def _training(learning_rate: float, iterations: int | None) -> TrainStage:
    """Return a training whose loss has fallen to a steady level after a few iterations."""
    shared: dict[str, Any] = {
        "batch": {"micro_batch_size": BATCH, "global_batch_size": BATCH},
        "checkpoint": {"every_iterations": 60, "keep_last": 9},
        "validation": {"every_iterations": 1000},
        "activation_checkpointing": "none",
        "precision": "fp32",
        "guards": {
            "replicas_every_iterations": None,
            "spike": None,
            "divergence": {"window_iterations": 512, "action": "roll_back"},
        },
    }
    return stage(
        samples=BATCH * (HEALTHY + 128),
        optimizer={"learning_rate": learning_rate, "schedule": "constant"},
        segment={"iterations": iterations},
        **shared,
    )


def _chain(stages: list[TrainStage], folder: Path) -> list[Segment]:
    """Run one segment of each configuration."""
    from training.loop.run_segment import train

    found = []
    for number, configuration in enumerate(stages, start=1):
        with opened(configuration, folder, number) as run:
            found.append(train(run))
    return found


def test_a_divergence_at_a_high_learning_rate_is_rolled_back_with_the_samples_since_its_beginning(
    tmp_path: Path,
) -> None:
    stages = [_training(1e-3, HEALTHY), _training(0.5, None)]
    ((healthy, diverged),) = run_ranks(_chain, 1, stages, tmp_path)
    assert (healthy.status, healthy.iteration) == (SegmentStatus.TIME_LIMIT, HEALTHY)
    assert diverged.status is SegmentStatus.ROLLED_BACK
    paths = RunPaths(tmp_path)
    (incident,) = map(read_incident, incident_files(paths.incidents))
    assert (incident.event, incident.action) == ("divergence", "roll_back")
    assert incident.iteration > HEALTHY
    (event,) = (each for each in records(tmp_path) if each.get("event") == "divergence")
    assert event["message"] == incident.message
    (skip,) = read_skips(paths).skips
    assert 0 < skip.from_sample <= BATCH * HEALTHY < skip.to_sample == BATCH * incident.iteration
    assert diverged.checkpoint == step_name(diverged.iteration)
    assert diverged.consumed_samples <= skip.from_sample
