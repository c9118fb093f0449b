"""Test when a checkpoint is due and how long it is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bloomery.config.training_loop import CheckpointConfig, SaveRule
from bloomery.spec.save_points import is_due, is_for_good, kept, saves_until

POLICY = CheckpointConfig(
    every_iterations=50,
    schedule=[SaveRule(until_iteration=10, every_iterations=3), SaveRule(until_iteration=40, every_iterations=20)],
    at_iterations=[7, 33],
    keep_last=2,
    keep_every_iterations=100,
)


def test_each_save_rule_applies_until_its_end_and_single_points_are_added() -> None:
    assert [each for each in range(161) if is_due(POLICY, each)] == [3, 6, 7, 9, 20, 33, 40, 50, 100, 150]


@given(
    st.lists(st.integers(1, 60), max_size=3, unique=True),
    st.lists(st.integers(1, 20), min_size=4, max_size=4),
    st.lists(st.integers(1, 99), max_size=5),
)
def test_saves_until_counts_all_due_saves(ends: list[int], every: list[int], points: list[int]) -> None:
    rules = [SaveRule(until_iteration=end, every_iterations=own) for end, own in zip(sorted(ends), every, strict=False)]
    policy = CheckpointConfig(every_iterations=every[-1], schedule=rules, at_iterations=points)
    count = 0
    for iteration in range(100):
        count += is_due(policy, iteration)
        assert saves_until(policy, iteration) == count


def test_points_and_multiples_are_kept_permanently() -> None:
    saved = [3, 6, 7, 9, 20, 33, 40, 50, 100, 150, 163]
    assert [each for each in saved if is_for_good(POLICY, each)] == [7, 33, 100]
    assert kept(POLICY, saved) == [7, 33, 100, 150, 163]
    assert kept(POLICY, []) == []


def test_without_points_only_the_newest_checkpoints_are_kept() -> None:
    assert kept(CheckpointConfig(keep_last=3), [4, 2, 8, 6]) == [4, 6, 8]
