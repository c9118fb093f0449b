"""Test that the times of a micro-batch and of an update are computed from the times of steps."""

from __future__ import annotations

import pytest

from training.time_steps import split_times


def test_steps_of_two_lengths_tell_micro_batch_and_update_apart() -> None:
    # A micro-batch takes 2 s and an update 0.5 s, so a step takes 2.5 s with one micro-batch and 6.5 s with three. The
    # medians ignore an outlier.
    assert split_times([2.5, 2.5, 9.0], [6.5, 6.5, 6.5]) == pytest.approx((2.0, 0.5))


def test_times_that_contradict_each_other_count_the_update_in_the_micro_batch() -> None:
    assert split_times([3.0], [2.7]) == pytest.approx((0.9, 0.0))
    assert split_times([1.0], [9.0]) == pytest.approx((3.0, 0.0))


def test_without_a_long_step_the_short_one_is_a_micro_batch() -> None:
    assert split_times([4.0], []) == (4.0, 0.0)
