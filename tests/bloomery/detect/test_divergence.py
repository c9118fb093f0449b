"""Test the divergence detector on simulated trainings that diverge slowly, and on healthy ones.

`bench/divergence.py` makes the same simulations with more iterations, positions and shapes.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from simulated_losses import PLANS, Simulated, alarms, climb, diverging, simulate

from bloomery.config.training_loop import DivergenceConfig, SpikeConfig
from bloomery.detect.divergence import BLOCK, Divergence, DivergenceDetector
from bloomery.detect.spike import SpikeDetector

OWN = DivergenceConfig()
BLOOM = PLANS["BLOOM: ramp-up from 192 to 2048 samples"]
BEGIN, AT = 31_000, 2048
"""Iteration after which the loss climbs (BLOOM's published loss is about 2.2 there); number of healthy iterations."""


def detector(window: int = OWN.window_iterations) -> DivergenceDetector:
    return DivergenceDetector(window, OWN.least_rise, OWN.deviations)


def climbing(seed: int, duration: int = 300, shape: str = "linear") -> Simulated:
    """Simulate a training that is healthy until iteration `BEGIN` and then diverges."""
    return diverging(BLOOM, AT, min(duration, 1500), seed, first=BEGIN - AT + 1, climb=climb(shape, duration))


def rise_at(found: Divergence, run: Simulated) -> float:
    """Return the relative rise of the loss without noise at an alarm."""
    return float(run.trend[found.iteration - run.first] / run.trend[AT - 1]) - 1.0


def steady(loss: float, count: int) -> list[float]:
    """Return losses that alternate between 1 % above and 1 % below a value."""
    return [loss * (1.01 if number % 2 else 0.99) for number in range(count)]


@pytest.mark.parametrize(("shape", "duration"), [("linear", 300), ("linear", 3000), ("accelerating", 1000)])
def test_a_climb_from_2_2_to_3_is_found_in_19_of_20_runs_before_a_rise_of_10_percent(shape: str, duration: int) -> None:
    in_time = 0
    for seed in range(20):
        run = climbing(seed, duration, shape)
        found = [each for each in alarms(detector(), run) if each.iteration > BEGIN]
        in_time += bool(found) and rise_at(found[0], run) < 0.10
    assert in_time >= 19


def test_a_climb_that_the_spike_detector_misses_is_found() -> None:
    """The spike detector's window of usual values climbs with the loss, so the spike detector finds nothing."""
    own = SpikeConfig()
    spikes = SpikeDetector(own.window_iterations, own.deviations)
    run = climbing(seed=3)
    found = [spikes.seen(iteration, norm, loss) for iteration, loss, norm, _ in run.rows() if iteration > BEGIN]
    assert not any(found)
    assert list(alarms(detector(), run))


@pytest.mark.parametrize("name", PLANS)
def test_healthy_trainings_with_warm_up_ramp_up_curriculum_and_spikes_raise_no_alarm(name: str) -> None:
    run = simulate(PLANS[name], 20_000, seed=1)
    assert list(alarms(detector(), run)) == []


def test_a_divergence_is_reported_once_with_its_levels_its_beginning_and_the_gradient_norm() -> None:
    run = climbing(seed=4)
    (found,) = alarms(detector(), run)
    assert found.iteration % BLOCK == 0
    assert BEGIN < found.iteration < BEGIN + 100
    assert BEGIN - 100 < found.begin < found.iteration
    assert found.best_iteration <= BEGIN + 16
    assert found.rise > OWN.least_rise
    assert found.deviations > OWN.deviations
    assert found.grad_norm_ratio == pytest.approx(1.2, abs=0.15)
    assert f"% above {found.best:.4g}, its lowest median, at iteration {found.best_iteration}" in found.message


def test_a_new_divergence_after_a_recovery_is_reported_again() -> None:
    losses = [*steady(2.0, 512), *steady(2.2, 160), *steady(2.0, 512), *steady(2.2, 160)]
    ended = DivergenceDetector(512, 0.03, 6.0)
    found = [each for number, loss in enumerate(losses, start=1) if (each := ended.seen(number, loss, 0.2))]
    assert [each.iteration for each in found] == [544, 1216]


@pytest.mark.parametrize("length", [20, 30, 40])
def test_a_spike_that_recovers_is_not_a_divergence(length: int) -> None:
    for offset in range(BLOCK):
        losses = steady(2.0, 600)
        for number in range(length):
            losses[500 + offset + number] *= math.exp(math.log(2.5) * (1 - number / length))
        own = detector()
        assert not any(own.seen(number, loss, 0.2) for number, loss in enumerate(losses, start=1))


def test_noisy_losses_of_a_small_batch_must_rise_more() -> None:
    """A rise of 5 % is found if the losses vary by 1 %, but not if they vary by 20 %."""
    random = np.random.default_rng(5)
    for deviation, fires in ((0.01, True), (0.2, False)):
        losses = 2.0 * np.exp(deviation * random.standard_normal(1024))
        losses[512:] *= 1.05
        own = detector()
        assert any(own.seen(number, loss, None) for number, loss in enumerate(losses.tolist(), start=1)) is fires


def test_another_mixture_or_sequence_length_may_have_a_higher_loss() -> None:
    for change in ({"stage": 1}, {"length": 512}, {"length": 128}):
        before, own = {"stage": 0, "length": 256}, detector()
        losses = [*steady(2.0, 512), *steady(2.2, 512)]
        found = [
            own.seen(number, loss, 0.2, **(before if number <= 512 else before | change))
            for number, loss in enumerate(losses, start=1)
        ]
        assert not any(found)
        # A rise after the change is found.
        assert any(own.seen(1024 + number, 2.4, 0.2, **(before | change)) for number in range(1, 100))


def test_small_steps_of_a_curriculum_do_not_hide_a_divergence() -> None:
    own = detector()
    losses = [*steady(2.0, 512), *steady(2.2, 128)]
    assert any(own.seen(number, loss, 0.2, length=512 + number // 8) for number, loss in enumerate(losses, start=1))


@pytest.mark.parametrize("window", [512, 1024])
@pytest.mark.parametrize("stop", [1900, 2111, 2112, 2200])
def test_a_resumed_training_gives_the_same_verdicts_as_an_uninterrupted_one(window: int, stop: int) -> None:
    """Only the last `records_needed` iterations before the resume are shown to the new detector."""
    rows = list(climbing(seed=6).rows())
    # Some losses are not finite, and one whole block has no finite loss.
    for number in (1500, 1700, *range(1800, 1840)):
        rows[number] = (rows[number][0], math.nan, math.inf, rows[number][3])
    whole, resumed = detector(window), detector(window)
    verdicts = [whole.seen(iteration, loss, norm, length=length) for iteration, loss, norm, length in rows]
    for iteration, loss, norm, length in rows[max(0, stop - DivergenceDetector.records_needed(window)) : stop]:
        resumed.seen(iteration, loss, norm, length=length)
    again = [resumed.seen(iteration, loss, norm, length=length) for iteration, loss, norm, length in rows[stop:]]
    assert again == verdicts[stop:]
    assert any(verdicts)


def test_a_repeated_iteration_is_not_compared_with_the_attempt_before() -> None:
    """After a roll-back the training repeats iterations. The detector then begins again."""
    own = detector()
    for number, loss in enumerate(steady(2.0, 512), start=1):
        own.seen(number, loss, 0.2)
    assert not any(own.seen(number, 3.0, 0.2) for number in range(257, 513))


def test_nothing_is_judged_before_iteration_272_or_before_half_a_block_of_finite_values() -> None:
    for first, found_at in ((208, 272), (272, 304)):
        own = detector()
        losses = [*steady(2.0, first), *steady(3.0, 200)]
        found = [each.iteration for number, loss in enumerate(losses, start=1) if (each := own.seen(number, loss, 0.2))]
        assert found == [found_at]
    own = detector()
    assert not any(own.seen(number, math.nan if number % 16 > 6 else 2.0 + number, None) for number in range(1, 600))


def test_memory_is_bounded_by_the_window() -> None:
    own = DivergenceDetector(512, 0.03, 6.0)
    for number, loss in enumerate(steady(2.0, 5000), start=1):
        own.seen(number, loss, 0.2)
    assert len(own._levels) <= 512 // BLOCK
    indices = [each.index for each in own._levels]
    assert all(after == before + 1 for before, after in pairwise(indices))
