"""Test that a loss spike rolls a real training back, and that the next segment skips the samples of the spike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from training_launcher import Launcher

from bloomery.contracts.checkpoint import read_checkpoint
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import read_records
from bloomery.contracts.segment import SegmentStatus, read_segment
from bloomery.contracts.skips import read_skips
from training.guards.incident import incident_files, read_incident


@pytest.mark.distributed
@pytest.mark.slow
def test_a_spike_ends_the_segment_and_the_next_segment_skips_its_samples(
    launcher: Callable[..., Launcher],
) -> None:
    # The learning rate is too high to learn, and the guard counts any rise above the median as a spike.
    run = launcher(
        "spiking",
        samples=400,
        optimizer={"learning_rate": 1.0},
        checkpoint={"every_iterations": 1, "keep_last": 5},
        validation={"every_iterations": 100},
        guards={
            "spike": {"window_iterations": 16, "deviations": 0.01, "action": "roll_back"},
            "roll_back_iterations": 2,
            "max_roll_backs": 1,
        },
    )
    first = run.segment(1)
    assert first["status"] == "rolled_back"
    paths = RunPaths(run.run)
    (skip,) = read_skips(paths).skips
    (incident,) = map(read_incident, incident_files(paths.incidents))
    assert (incident.event, incident.action) == ("spike", "roll_back")
    assert skip.from_sample < incident.from_sample < incident.to_sample == skip.to_sample
    assert first["iteration"] < incident.iteration
    newest = read_checkpoint(paths.checkpoints / str(first["checkpoint"]))
    assert newest.consumed_samples == first["consumed_samples"] <= skip.from_sample
    # The configuration allows only one roll-back.
    process = run.start(2)
    talk, _ = process.communicate(timeout=300)
    assert process.returncode == 1, talk
    assert "  training.skip: [] -> " in talk
    steps = [record for record in read_records(paths.logs / "metrics.jsonl") if isinstance(record, MetricsRecord)]
    over = next(each for each in steps if each.segment == 2)
    assert over.iteration == newest.iteration + 1
    assert over.skipped_samples == skip.to_sample - skip.from_sample
    assert over.consumed_samples == skip.to_sample + over.global_batch_size
    last = read_segment(paths.segments / "history" / "2-1.json")
    assert last.status is SegmentStatus.FAILED
    assert not (paths.segments / "2.json").exists()
