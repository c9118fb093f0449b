"""Test pauses between repeated attempts."""

from __future__ import annotations

import itertools

from bloomery.base.backoff import pauses


def test_pauses_double_up_to_the_longest_one_and_differ_by_chance() -> None:
    # The jitter is at most 50 %.
    for _ in range(100):
        taken = list(itertools.islice(pauses(2.0, 60.0), 9))
        for pause, middle in zip(taken, (2, 4, 8, 16, 32, 60, 60, 60, 60), strict=True):
            assert 0.5 * middle <= pause <= 1.5 * middle
    assert len(set(itertools.islice(pauses(60.0, 60.0), 50))) > 40
