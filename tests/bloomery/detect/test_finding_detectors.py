"""Test the conditions that detectors find in records and in single values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from simulated_losses import PLANS
from simulated_records import RANKS, clean_records

from bloomery.config.training_loop import CheckpointConfig, DivergenceConfig, SaveRule, SpikeConfig
from bloomery.contracts.metrics_record import MetricsRecord, ValidationRecord
from bloomery.detect import liveness, pace, storage
from bloomery.detect.finding import Finding, Kind, Severity
from bloomery.detect.numerics import LossScaleCollapse, NonFinite
from bloomery.detect.raised_loss import RaisedLoss, SpikeBurst
from bloomery.detect.validation_rise import validation_rises

PLAN = replace(PLANS["constant batch of 2048 samples"], spikes_per_iteration=0.0)
HEALTHY = list(clean_records(PLAN, 3000, seed=11))[2000:]
"""Records of the iterations 2,001 to 3,000 without any fault."""


def changed(records: Iterable[MetricsRecord], first: int, last: int, **factors: Any) -> list[MetricsRecord]:
    """Change fields of the iterations from `first` to `last`. Floats multiply a field, and other values replace it."""
    made = []
    for record in records:
        if first <= record.iteration <= last:
            values = {
                name: getattr(record, name) * factor if isinstance(factor, float) else factor
                for name, factor in factors.items()
            }
            made.append(record.model_copy(update=values))
        else:
            made.append(record)
    return made


def held(detector: Any, records: Iterable[MetricsRecord]) -> dict[int, Finding]:
    """Return the finding after each iteration that has one."""
    found = {}
    for record in records:
        detector.seen(record)
        if (finding := detector.finding()) is not None:
            found[record.iteration] = finding
    return found


def test_a_spike_of_three_iterations_is_found_and_ends_64_iterations_later() -> None:
    found = held(SpikeBurst(SpikeConfig(), 3), changed(HEALTHY, 2400, 2402, grad_norm=8.0))
    assert (min(found), max(found)) == (2402, 2402 + 64)
    assert "Gradient norm" in found[2402].what


def test_single_outliers_of_the_loss_are_not_reported_as_a_spike() -> None:
    records = changed(changed(HEALTHY, 2400, 2400, loss=1.5), 2600, 2600, loss=1.5)
    assert held(SpikeBurst(SpikeConfig(), 3), records) == {}


def test_a_loss_that_climbs_is_found_until_it_falls_again() -> None:
    records = [
        record.model_copy(
            update={"loss": (record.loss or 0) * (1 + 0.0008 * max(0, min(record.iteration, 2700) - 2500))}
        )
        for record in HEALTHY
    ]
    records = changed(records, 2720, 3000, loss=1 / 1.16)
    found = held(RaisedLoss(DivergenceConfig()), records)
    assert 2500 < min(found) < 2640
    assert 2720 + 200 < max(found) < 2720 + 300
    assert set(found) == set(range(min(found), max(found) + 1))


def test_values_that_are_not_finite_are_found_for_64_iterations() -> None:
    found = held(NonFinite(), changed(HEALTHY, 2400, 2401, loss=None))
    assert (min(found), max(found)) == (2400, 2401 + 63)
    assert "2 of the last 64" in found[2401].what


def test_a_loss_scale_that_collapses_is_found_and_its_first_search_is_not() -> None:
    first = [record.model_copy(update={"loss_scale": 2.0 ** max(4, 16 - n)}) for n, record in enumerate(HEALTHY[:100])]
    assert held(LossScaleCollapse(64.0), first) == {}
    found = held(LossScaleCollapse(64.0), changed(HEALTHY, 2600, 2650, loss_scale=1 / 128))
    assert 2600 < min(found) < 2610
    assert max(found) == 2650


@pytest.mark.parametrize(("speed", "is_found"), [(0.75, True), (0.85, False)])
def test_a_lower_speed_is_found_if_the_drop_exceeds_the_limit(speed: float, is_found: bool) -> None:
    found = held(pace.SlowTraining(0.2), changed(HEALTHY, 2500, 2700, tokens_per_second=speed))
    assert bool(found) is is_found
    if found:
        assert 2500 + 20 < min(found) < 2500 + 64
        assert 2700 < max(found) < 2700 + 64


def test_a_larger_batch_is_not_a_lower_speed() -> None:
    records = changed(HEALTHY, 2500, 3000, tokens_per_second=0.5, global_batch_size=4096)
    assert held(pace.SlowTraining(0.2), records) == {}


def test_a_rank_that_becomes_slow_is_named() -> None:
    found = held(pace.SlowestRank(0.1), changed(HEALTHY, 2500, 2700, slowest_rank=3, slowest_seconds=1.3))
    assert {finding.rank for finding in found.values()} == {3}
    assert 2500 + 25 < min(found) < 2560
    # The last rank always has more work. This must not be reported.
    assert held(pace.SlowestRank(0.1), HEALTHY) == {}
    assert {record.slowest_rank for record in HEALTHY} == {RANKS - 1}


def test_a_stall_needs_more_than_ten_usual_iterations_and_the_minutes() -> None:
    assert pace.stall(5, 1799, 1.0, 30) is None
    assert pace.stall(5, 1801, 1.0, 30).severity is Severity.CRITICAL
    assert pace.stall(5, 5000, 600.0, 30) is None
    assert pace.stall(5, 6001, 600.0, 30) is not None


def validations(*losses: float) -> list[ValidationRecord]:
    return [
        ValidationRecord(
            iteration=100 * number,
            consumed_samples=0,
            consumed_tokens=0,
            segment=1,
            time="2026-01-01T00:00:00Z",
            validation={"fr": loss, "en": 2.0},
            validation_mean=loss,
        )
        for number, loss in enumerate(losses, start=1)
    ]


def test_a_language_whose_loss_rises_twice_is_named() -> None:
    assert validation_rises(validations(3.0, 2.8, 3.0), 0.05) == []
    (found,) = validation_rises(validations(3.0, 2.8, 3.0, 3.1), 0.05)
    assert found.key == "validation:fr"
    assert "from 2.8 after iteration 200 to 3.1 after iteration 400" in found.what
    assert validation_rises(validations(3.0, 2.8, 3.0, 3.1, 2.85), 0.05) == []


def test_the_next_save_follows_the_rules_of_the_configuration() -> None:
    settings = CheckpointConfig(
        every_iterations=100, schedule=[SaveRule(until_iteration=50, every_iterations=10)], at_iterations=[333]
    )
    due = [
        iteration for iteration in range(1, 500) if storage.next_save(settings, iteration - 1, iteration) == iteration
    ]
    assert due == [10, 20, 30, 40, 50, 100, 200, 300, 333, 400]
    assert storage.next_save(settings, 333, 500) == 400
    assert storage.next_save(settings, 400, 450) is None


def test_an_overdue_checkpoint_names_the_newest_one() -> None:
    assert storage.checkpoint_overdue("step00000100", 200, 3600, 60) is None
    assert (
        "The newest complete checkpoint is step00000100"
        in storage.checkpoint_overdue("step00000100", 200, 3601, 60).what
    )


def growth(free: int, **settings: Any) -> storage.DiskGrowth:
    return storage.disk_growth(
        CheckpointConfig(every_iterations=100, keep_last=2, **settings),
        iteration=1000,
        last_iteration=10_000,
        seconds_per_iteration=86.4,
        free_bytes=free,
        checkpoint_bytes=1000,
        checkpoints=2,
        log_bytes_per_iteration=0.0,
    )


def test_the_disk_is_forecast_from_checkpoints_that_are_kept() -> None:
    # One checkpoint more than the two kept ones must fit.
    assert growth(999).days_left == pytest.approx(0.1)
    assert growth(1000).days_left is None
    # A checkpoint at each 500th iteration is kept: at iteration 1500, and the second one at 2000 leaves no space.
    assert growth(2500, keep_every_iterations=500).days_left == pytest.approx(1.1)
    assert growth(100_000, keep_every_iterations=500).days_left is None


def test_the_disk_is_reported_within_the_days_and_critical_on_the_last_one() -> None:
    forecast = storage.DiskGrowth(2.0, 10)
    assert storage.disk_days_left(forecast, 5, 1.5) is None
    assert storage.disk_days_left(forecast, 5, 3.0).severity is Severity.WARNING
    assert storage.disk_days_left(storage.DiskGrowth(0.5, 10), 5, 3.0).severity is Severity.CRITICAL


def test_a_sync_is_overdue_after_three_intervals_at_least() -> None:
    limits = {"sync_minutes": 60, "every_minutes": 30}
    assert storage.sync_overdue(5400, 0, None, **limits) is None
    assert storage.sync_overdue(5401, 2, "no route", **limits).kind is Kind.SYNC
    assert storage.sync_overdue(None, 0, None, **limits) is None
    assert storage.sync_overdue(None, 1, "no route", **limits).hold_seconds == 5400


def test_the_crash_budget_is_reported_when_one_more_crash_ends_the_training() -> None:
    assert liveness.crash_budget(1, 2, 1, 5) is None
    assert "crashed 2 times" in liveness.crash_budget(2, 2, 1, 5).what
    assert "started 5 times" in liveness.crash_budget(0, 2, 5, 5).what
    assert liveness.crash_budget(0, 0, 1, 5) is None


def test_idle_and_queue_age_need_more_than_their_limits() -> None:
    assert liveness.idle(600, 10, "") is None
    assert liveness.idle(601, 10, "Why.").what.endswith("Why.")
    assert liveness.queue_age("7", 3600, "Priority", 1) is None
    assert "reason of SLURM: Priority" in liveness.queue_age("7", 3601, "Priority", 1).what
