"""Test that a segment ends after its own time limit or early enough before the end of its job."""

from __future__ import annotations

import time

import pytest

from training.loop.segment_deadline import SegmentDeadline


@pytest.fixture
def now(monkeypatch):
    """Replace both clocks by a time that the test sets."""
    value = {"now": 1000.0}
    monkeypatch.setattr(time, "time", lambda: value["now"])
    monkeypatch.setattr(time, "monotonic", lambda: value["now"])
    return value


def over_at(clock: SegmentDeadline, now: dict[str, float]) -> float:
    while not clock.is_over():
        now["now"] += 1.0
        assert now["now"] < 1e5
    return now["now"] - 1000.0


def test_a_segment_without_limits_never_ends(now):
    clock = SegmentDeadline(None)
    now["now"] += 1e9
    assert not clock.is_over()


def test_a_segment_ends_after_its_time_limit(now):
    assert over_at(SegmentDeadline(2.0), now) == 120.0


def test_a_segment_ends_the_margin_before_the_end_of_its_job(now):
    assert over_at(SegmentDeadline(None, end=1000.0 + 600, margin_seconds=300), now) == 300.0


def test_slow_saves_and_iterations_end_a_segment_earlier(now):
    clock = SegmentDeadline(None, end=1000.0 + 600, margin_seconds=100)
    clock.note_save(40.0)
    clock.note_save(20.0)
    clock.note_iteration(10.0)
    assert over_at(clock, now) == 600 - 100 - 1.5 * 40 - 2 * 10


def test_the_earlier_of_the_two_limits_applies(now):
    assert over_at(SegmentDeadline(1.0, end=1000.0 + 600), now) == 60.0


def test_a_segment_ends_after_its_number_of_iterations() -> None:
    clock = SegmentDeadline(None, iterations=2)
    clock.note_iteration(1.0)
    assert not clock.iterations_are_over
    clock.note_iteration(1.0)
    assert clock.iterations_are_over
    assert not clock.is_over(), "the limit of iterations must not interrupt the work after the last iteration"
