"""Test that a rank slower than its peers is reported, but unequal work and noise are not."""

from __future__ import annotations

import random

from bloomery.detect.slow_rank import SlowRankDetector, extremes

STAGES = [[0, 1, 2, 3], [4, 5, 6, 7]]


def seconds(draw: random.Random, slow: dict[int, float]) -> list[float]:
    """Return each rank's seconds; the second stage has 1.5 times the work, and times vary by 3 %."""
    return [(1.0 if rank < 4 else 1.5) * slow.get(rank, 1.0) * draw.uniform(0.97, 1.03) for rank in range(8)]


def test_a_slow_rank_is_reported_once_a_window() -> None:
    detector, draw = SlowRankDetector(STAGES, window=20, margin=0.1), random.Random(1)
    told = [detector.seen(i, seconds(draw, {2: 1.25})) for i in range(1, 61)]
    found = [each for each in told if each is not None]
    assert [each.iteration for each in found] == [20, 40, 60]
    assert {each.rank for each in found} == {2}
    assert 0.2 < found[0].slower_by < 0.3
    assert "rank 2 computed" in found[0].message


def test_unequal_stages_and_noise_are_not_reported() -> None:
    detector, draw = SlowRankDetector(STAGES, window=20, margin=0.1), random.Random(2)
    assert not any(detector.seen(i, seconds(draw, {})) for i in range(500))


def test_a_rank_that_is_slow_in_every_other_iteration_is_not_reported() -> None:
    detector, draw = SlowRankDetector(STAGES, window=50, margin=0.1), random.Random(3)
    assert not any(detector.seen(i, seconds(draw, {2: 1.5} if i % 2 else {})) for i in range(500))


def test_only_the_slowest_rank_is_reported_and_never_one_without_peers() -> None:
    draw = random.Random(4)
    detector = SlowRankDetector(STAGES, window=10, margin=0.1)
    told = [detector.seen(i, seconds(draw, {1: 1.2, 6: 1.6})) for i in range(10)]
    assert told[-1] is not None
    assert told[-1].rank == 6
    alone = SlowRankDetector([[0], [1]], window=2, margin=0.1)
    assert not any(alone.seen(i, [1.0, 9.0]) for i in range(20))


def test_extremes_returns_the_first_fastest_and_the_slowest_rank() -> None:
    assert extremes([2.0, 1.0, 3.0, 1.0]) == (1, 1.0, 2, 3.0)
    assert extremes([1.0]) == (0, 1.0, 0, 1.0)
