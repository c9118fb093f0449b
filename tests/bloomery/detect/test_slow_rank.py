"""A rank that brakes the others is named; unequal work and noise are not."""

from __future__ import annotations

import random

from bloomery.detect.slow_rank import SlowRankDetector, extremes

STAGES = [[0, 1, 2, 3], [4, 5, 6, 7]]


def seconds(draw: random.Random, slow: dict[int, float]) -> list[float]:
    """The second stage has half as much work again; times vary by a few percent."""
    return [(1.0 if rank < 4 else 1.5) * slow.get(rank, 1.0) * draw.uniform(0.97, 1.03) for rank in range(8)]


def test_a_slow_rank_is_named_once_a_window() -> None:
    detector, draw = SlowRankDetector(STAGES, window=20, margin=0.1), random.Random(1)
    told = [detector.seen(i, seconds(draw, {2: 1.25})) for i in range(1, 61)]
    found = [each for each in told if each is not None]
    assert [each.iteration for each in found] == [20, 40, 60]
    assert {each.rank for each in found} == {2}
    assert 0.2 < found[0].slower_by < 0.3
    assert "rank 2 computed" in found[0].message


def test_stages_of_unequal_work_and_noise_are_no_slow_ranks() -> None:
    detector, draw = SlowRankDetector(STAGES, window=20, margin=0.1), random.Random(2)
    assert not any(detector.seen(i, seconds(draw, {})) for i in range(500))


def test_a_rank_that_is_slow_now_and_then_is_not_named() -> None:
    detector, draw = SlowRankDetector(STAGES, window=50, margin=0.1), random.Random(3)
    assert not any(detector.seen(i, seconds(draw, {2: 1.5} if i % 2 else {})) for i in range(500))


def test_of_several_the_slowest_and_a_rank_without_peers_never() -> None:
    draw = random.Random(4)
    detector = SlowRankDetector(STAGES, window=10, margin=0.1)
    told = [detector.seen(i, seconds(draw, {1: 1.2, 6: 1.6})) for i in range(10)]
    assert told[-1] is not None
    assert told[-1].rank == 6
    alone = SlowRankDetector([[0], [1]], window=2, margin=0.1)
    assert not any(alone.seen(i, [1.0, 9.0]) for i in range(20))


def test_extremes() -> None:
    assert extremes([2.0, 1.0, 3.0, 1.0]) == (1, 1.0, 2, 3.0)
    assert extremes([1.0]) == (0, 1.0, 0, 1.0)
