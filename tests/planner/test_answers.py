"""Compare the answers of `bloomery plan` with published figures."""

from __future__ import annotations

import pytest
from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.run import RunConfig
from planner.answers import Answers, answers
from planner.planned_state import speed_at, state_at


@pytest.fixture(scope="module")
def plan(bloom: RunConfig) -> Answers:
    return answers(bloom)


def preset(name: str) -> RunConfig:
    return load_config(ROOT / f"config/models/{name}.yaml")


def test_sizes_equal_the_published_ones(plan: Answers) -> None:
    assert round(plan.parameters / 1e9) == 176
    assert round(answers(preset("tr8-104b")).parameters / 1e9) == 104
    # The published values "329GB" and "2.3TB" are in fact GiB and TiB.
    assert plan.weights_bytes / 2**30 == pytest.approx(329, rel=0.03)
    assert plan.checkpoint_bytes / 2**40 == pytest.approx(2.3, rel=0.03)
    assert plan.bytes_per_parameter == 18
    assert (plan.gpus_per_replica, plan.data_parallel, plan.world_size) == (48, 8, 384)


def test_each_gpu_of_a_single_replica_needs_60_gib(plan: Answers) -> None:
    # Published: "one copy of the model takes 48 GPUs (using 60 GB of memory on each GPU)". This needs 18 bytes a
    # parameter.
    assert plan.parameters * plan.bytes_per_parameter / 48 / 2**30 == pytest.approx(60, rel=0.03)


def test_the_remaining_days_equal_the_published_ones(bloom: RunConfig, plan: Answers) -> None:
    state = state_at(bloom, iteration=12_695)
    assert plan.iterations == 115_311
    assert speed_at(bloom, state, 105).remaining_days == pytest.approx(124.7, abs=0.05)
