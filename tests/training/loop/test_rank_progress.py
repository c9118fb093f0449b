"""Test how long a rank may make no progress at each place, and that an engine's instructions are counted."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bloomery.config.training_loop import HeartbeatConfig
from bloomery.contracts.heartbeat import Place
from training.loop import rank_progress
from training.loop.rank_progress import RankProgress, count_instructions

CONFIG = HeartbeatConfig(iterations=5.0, seconds=60.0, save_seconds=600.0, first_minutes=30.0)
SHAPE, OTHER_SHAPE = (2, 32), (4, 32)


class _Clock:
    """Clock that only `wait` moves."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        patch.setattr(rank_progress.time, "perf_counter", lambda: self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    return _Clock(monkeypatch)


def _train(progress: RankProgress, clock: _Clock, *seconds: float, shape: tuple[int, int] = SHAPE) -> None:
    for each in seconds:
        with progress.step(progress.iteration + 1, shape):
            clock.wait(each)


def test_the_limit_of_the_start_applies_until_a_second_iteration_was_measured(clock: _Clock) -> None:
    progress = RankProgress()
    for place in (Place.STARTING, Place.LOADING, Place.ITERATION, Place.ENDING):
        progress.enter(place)
        assert progress.allowed_seconds(CONFIG) == 1800
    _train(progress, clock, 500.0)
    assert progress.allowed_seconds(CONFIG) == 1800, "the first iteration compiled kernels"
    _train(progress, clock, 10.0)
    assert progress.allowed_seconds(CONFIG) == 110


def test_the_usual_iteration_is_the_median(clock: _Clock) -> None:
    progress = RankProgress()
    _train(progress, clock, 500.0, 10.0, 12.0, 400.0)
    assert progress.allowed_seconds(CONFIG) == 5 * 12 + 60


def test_a_new_shape_of_micro_batches_has_the_limit_of_the_start_once(clock: _Clock) -> None:
    progress = RankProgress()
    _train(progress, clock, 10.0, 10.0)
    with progress.step(3, OTHER_SHAPE):
        assert progress.allowed_seconds(CONFIG) == 1800
        clock.wait(300.0)
    with progress.step(4, OTHER_SHAPE):
        assert progress.allowed_seconds(CONFIG) == 110


@pytest.mark.parametrize("place", [Place.VALIDATION, Place.REPLAY])
def test_the_first_validation_and_replay_have_the_limit_of_the_start(clock: _Clock, place: Place) -> None:
    progress = RankProgress()
    _train(progress, clock, 10.0, 10.0)
    for allowed in (1800, 110):
        with progress.during(place):
            assert progress.allowed_seconds(CONFIG) == allowed
            clock.wait(1000.0)
    assert progress.place is Place.ITERATION


def test_a_save_has_a_limit_from_the_longest_save(clock: _Clock) -> None:
    progress = RankProgress()
    _train(progress, clock, 10.0, 10.0)
    for allowed, seconds in ((1800, 40.0), (800, 30.0), (800, 50.0), (850, 1.0)):
        with progress.during(Place.SAVING):
            assert progress.allowed_seconds(CONFIG) == allowed
            clock.wait(seconds)


def test_a_save_that_failed_is_not_measured(clock: _Clock) -> None:
    progress = RankProgress()
    with pytest.raises(OSError, match="full"), progress.during(Place.SAVING):
        raise OSError("full")
    assert progress.place is Place.STARTING
    with progress.during(Place.SAVING):
        assert progress.allowed_seconds(CONFIG) == 1800


def test_each_change_of_place_and_each_instruction_is_progress() -> None:
    progress, executed = RankProgress(), []
    engine = SimpleNamespace(_INSTRUCTION_MAP={"forward": lambda _engine, buffer_id: executed.append(buffer_id)})
    count_instructions(engine, progress)
    counts = [progress.count]
    for buffer in (4, 5):
        engine._INSTRUCTION_MAP["forward"](engine, buffer_id=buffer)
        counts.append(progress.count)
    with progress.during(Place.SAVING):
        counts.append(progress.count)
    counts.append(progress.count)
    assert executed == [4, 5]
    assert counts == sorted(set(counts))
