"""Test that the use of a training's time adds up to the whole, and that each part has the right name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitoring.goodput import Attempt, Goodput, TimeUse, goodput

FIRST = Attempt(
    segment=1,
    submitted=900.0,
    started=1000.0,
    ended=1500.0,
    begun=1030.0,
    last=1480.0,
    training=400.0,
    lost=60.0,
    saves=20.0,
    validation=10.0,
    end_saves=15.0,
    first_iteration=1,
    last_iteration=40,
    status="time_limit",
)
SECOND = replace(FIRST, segment=2, submitted=1510.0, started=1600.0, ended=2100.0, begun=1630.0, last=2080.0, lost=0.0)


def parts(found: Goodput | None) -> dict[TimeUse, float]:
    assert found is not None
    assert sum(found.seconds.values()) == pytest.approx(found.total, abs=1e-6)
    assert all(seconds >= 0 for seconds in found.seconds.values())
    return {use: seconds for use, seconds in found.seconds.items() if seconds}


def test_the_time_of_a_finished_training_is_divided_without_a_rest() -> None:
    last = replace(SECOND, status="finished")
    found = goodput([FIRST, last], now=9999.0, finished=True)
    assert parts(found) == {
        TimeUse.TRAINING: 740.0,
        TimeUse.REDONE: 60.0,
        TimeUse.SAVES: 70.0,
        TimeUse.VALIDATION: 20.0,
        TimeUse.START: 60.0,
        TimeUse.STEPS: 40.0,
        TimeUse.END: 10.0,
        TimeUse.QUEUE: 90.0,
        TimeUse.IDLE: 10.0,
    }
    assert found is not None
    assert (found.since, found.until, found.share) == (1000.0, 2100.0, 740 / 1100)


def test_a_job_that_was_submitted_before_the_last_segment_ended_leaves_no_idle_time() -> None:
    found = parts(goodput([FIRST, replace(SECOND, submitted=1200.0)], now=2100.0, finished=True))
    assert found[TimeUse.QUEUE] == 100.0
    assert TimeUse.IDLE not in found


def test_time_after_a_fault_is_not_confused_with_a_stop_by_request() -> None:
    crashed = replace(FIRST, status="crashed", fault="hang", end_saves=0.0)
    found = parts(goodput([crashed, replace(SECOND, submitted=None)], now=2100.0, finished=True))
    assert (found[TimeUse.FAULT], found[TimeUse.IDLE]) == (20.0, 100.0)
    stopped = replace(FIRST, status="stopped")
    found = parts(goodput([stopped, replace(SECOND, submitted=None)], now=2100.0, finished=True))
    assert found[TimeUse.STOPPED] == 100.0
    assert TimeUse.IDLE not in found


def test_a_segment_that_failed_before_its_first_iteration_is_lost_to_the_fault() -> None:
    never = Attempt(1, None, 1000.0, 1050.0, None, None, status="crashed", fault="preflight")
    assert parts(goodput([never], now=1060.0)) == {TimeUse.FAULT: 50.0, TimeUse.IDLE: 10.0}
    # A launcher that is killed records no end, so no record shows how long it ran.
    assert parts(goodput([replace(never, ended=None, status=None)], now=1060.0)) == {TimeUse.IDLE: 60.0}


def test_a_running_training_is_counted_until_now() -> None:
    runs = replace(FIRST, ended=None, status=None, running=True)
    found = parts(goodput([runs], now=1600.0))
    assert (found[TimeUse.START], found[TimeUse.TRAINING]) == (30.0, 340.0)
    # The time since the last record belongs to the iteration in progress.
    assert found[TimeUse.CURRENT] == 105.0
    starts = Attempt(1, None, 1000.0, None, None, None, running=True)
    assert parts(goodput([starts], now=1020.0)) == {TimeUse.START: 20.0}


def test_a_training_that_waits_in_the_queue_is_not_idle() -> None:
    found = parts(goodput([FIRST], now=1800.0, queued_since=1550.0))
    assert (found[TimeUse.IDLE], found[TimeUse.QUEUE]) == (50.0, 250.0)


def test_durations_that_exceed_the_rounded_times_are_reduced() -> None:
    tight = replace(FIRST, begun=1000.0, last=1429.0, ended=1429.0)
    found = parts(goodput([tight], now=1429.0))
    assert found[TimeUse.TRAINING] == pytest.approx(340.0 * 429 / 430)
    assert set(found) == {TimeUse.TRAINING, TimeUse.REDONE, TimeUse.SAVES, TimeUse.VALIDATION}


def test_attempts_of_earlier_versions_leave_the_time_between_them_unknown() -> None:
    old = [
        replace(FIRST, submitted=None, started=None, ended=None),
        replace(SECOND, submitted=None, started=None, ended=None),
    ]
    found = parts(goodput(old, now=2080.0))
    assert found[TimeUse.UNKNOWN] == 150.0
    assert {TimeUse.START, TimeUse.QUEUE, TimeUse.IDLE}.isdisjoint(found)
    assert goodput([replace(FIRST, started=None, begun=None)], now=2000.0) is None


def test_an_attempt_that_seems_to_begin_before_the_last_one_ended_is_not_counted_twice() -> None:
    """The clocks of two nodes may differ."""
    early = replace(SECOND, started=1490.0, submitted=1300.0)
    found = goodput([FIRST, early], now=2100.0, finished=True)
    assert parts(found)[TimeUse.START] == 30.0 + 130.0
