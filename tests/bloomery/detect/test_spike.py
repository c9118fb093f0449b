"""Test the spike detector on the published log of April 2022 and on simulated trainings without spikes."""

from __future__ import annotations

import math
import random

import pytest
from repository import TR11_LOG

from bloomery.contracts.logline import read_log
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.detect.spike import GRADIENT_NORM, LOSS, SpikeDetector

PUBLISHED = TR11_LOG
"""Lines of tr11-176B-ml/chronicles.md, "2022-04-12: a spike".

The lines cover iterations 31214 to 31222 and two iterations after the recovery.
"""


def published() -> dict[int, tuple[float, float]]:
    lines = [line for _, line in read_log(PUBLISHED)]
    found = {line.iteration: (line.grad_norm, line.loss) for line in lines if line.iteration > 31_000}
    assert all(norm is not None and loss is not None for norm, loss in found.values())
    return found  # type: ignore[return-value]


def quiet(count: int, seed: int, tail: float = 0.0) -> list[tuple[float, float]]:
    """Draw (gradient norm, loss) pairs like those of the published lines without spikes.

    The published gradient norms are 0.174 to 0.267, the losses 2.199 to 2.236.

    `tail` is the share of harmless outliers, whose norm is a third larger.
    """
    draw = random.Random(seed)
    return [
        (
            0.21 * math.exp(draw.gauss(0, 0.14)) * (1.33 if draw.random() < tail else 1.0),
            draw.gauss(2.215, 0.02),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("window", [16, 128, 500])
def test_the_published_spike_is_detected_by_the_gradient_norm_before_the_loss_rises(seed: int, window: int) -> None:
    log, detector = published(), SpikeDetector(window, 6.0)
    before = quiet(1000, seed)
    fired = [
        spike
        for iteration, (norm, loss) in enumerate([*before, log[31_214]], start=31_214 - len(before))
        if (spike := detector.seen(iteration, norm, loss)) is not None
    ]
    # A window of 16 iterations is too short to avoid false alarms in 1000 iterations. Windows of 128 and more avoid
    # them.
    assert window == 16 or fired == []
    spikes = [detector.seen(iteration, *log[iteration]) for iteration in range(31_215, 31_223)]
    first = next(spike for spike in spikes if spike is not None)
    assert 31_215 <= first.iteration <= 31_217
    assert first.quantity == GRADIENT_NORM
    if window >= 128:
        assert first.iteration == 31_215
        assert all(spikes), "every iteration of the published spike is high"
        assert [spike.begins for spike in spikes if spike] == [True] + [False] * 7
        assert [detector.seen(iteration, *log[iteration]) for iteration in (31_250, 31_251)] == [None, None]


@pytest.mark.parametrize(("seed", "tail"), [(1, 0.0), (2, 0.05), (3, 0.05)])
def test_ten_thousand_iterations_without_a_spike_raise_no_alarm(seed: int, tail: float) -> None:
    detector = SpikeDetector(128, 6.0)
    fired = [detector.seen(i, norm, loss) for i, (norm, loss) in enumerate(quiet(10_000, seed, tail))]
    assert not any(fired)


def test_the_fast_changes_of_a_young_training_are_not_spikes() -> None:
    detector, draw = SpikeDetector(128, 6.0), random.Random(3)
    for iteration in range(1, 3000):
        norm = 3.0 / math.sqrt(iteration) * math.exp(draw.gauss(0, 0.2))
        assert detector.seen(iteration, norm, 2 + 9 / math.sqrt(iteration) + draw.gauss(0, 0.05)) is None


def test_a_rise_of_the_loss_alone_is_reported_with_its_numbers() -> None:
    detector = SpikeDetector(32, 6.0)
    for iteration, (norm, loss) in enumerate(quiet(32, 1)):
        detector.seen(iteration, norm, loss)
    spike = detector.seen(32, 0.2, 2.9)
    assert spike is not None
    assert (spike.iteration, spike.quantity, spike.value, spike.begins) == (32, LOSS, 2.9, True)
    assert spike.usual == pytest.approx(2.215, abs=0.03)
    assert "loss 2.9 at iteration 32 is" in spike.message


def test_a_lasting_change_becomes_the_new_normal() -> None:
    detector = SpikeDetector(32, 6.0)
    for iteration, (norm, loss) in enumerate(quiet(64, 1)):
        detector.seen(iteration, norm, loss)
    higher = [detector.seen(64 + i, norm, loss + 1.0) for i, (norm, loss) in enumerate(quiet(64, 2))]
    assert higher[0] is not None
    assert not any(higher[32:])


def test_nothing_is_judged_before_half_a_window_of_finite_values() -> None:
    detector = SpikeDetector(32, 6.0)
    for iteration in range(16):
        assert detector.seen(iteration, None, math.nan) is None
        assert detector.seen(iteration, math.inf, 0.0) is None
        assert detector.seen(iteration, 0.2, 2.0) is None
        assert detector.is_high(100.0) == (iteration == 15)
    assert not detector.is_high(math.inf)
    assert not detector.is_high(math.nan)
    assert detector.seen(16, 0.2, 2.0) is None, "without any spread, an equal value is not a spike"


def test_the_threshold_counts_robust_deviations_of_the_logarithm() -> None:
    """Two values alternate. Their logarithms differ by 0.5 from the median, so the robust deviation is 0.5 x 1.4826."""
    deviation = 0.5 * 1.4826
    for deviations, fires in ((3.9, False), (4.1, True)):
        detector = SpikeDetector(32, 4.0)
        for iteration in range(32):
            detector.seen(iteration, math.exp(0.5 if iteration % 2 else -0.5), 2.0)
        value = math.exp(deviations * deviation)
        assert detector.is_high(value) is fires
        assert (detector.seen(32, value, 2.0) is not None) is fires


def test_is_high_does_not_change_the_detector() -> None:
    one, other = SpikeDetector(32, 6.0), SpikeDetector(32, 6.0)
    for iteration, (norm, loss) in enumerate(quiet(40, 1)):
        one.is_high(100.0 * norm)
        assert one.seen(iteration, norm, loss) == other.seen(iteration, norm, loss)
    assert one.seen(40, 9.0, 2.2) == other.seen(40, 9.0, 2.2)


def record(iteration: int, grad_norm: float | None, loss: float | None) -> MetricsRecord:
    return MetricsRecord(
        iteration=iteration,
        consumed_samples=iteration,
        consumed_tokens=iteration,
        global_batch_size=1,
        learning_rate=1e-3,
        loss=loss,
        grad_norm=grad_norm,
        seconds=1.0,
        tokens_per_second=1.0,
        tflops_hardware=1.0,
        tflops_model=1.0,
        samples_per_second=1.0,
        total_iterations=1000,
        segment=1,
        time="2026-01-01T00:00:00Z",
    )


def test_a_resumed_training_gives_the_same_verdicts_as_an_uninterrupted_one() -> None:
    values = quiet(300, 5, tail=0.1)
    values[180], values[220] = (math.nan, math.nan), (7.0, 4.0)
    whole, resumed = SpikeDetector(64, 6.0), SpikeDetector(64, 6.0)
    verdicts = [whole.seen(i, norm, loss) for i, (norm, loss) in enumerate(values)]
    written = [record(i, *(v if math.isfinite(v) else None for v in pair)) for i, pair in enumerate(values[:200])]
    resumed.replay(written)
    assert [resumed.seen(i, *values[i]) for i in range(200, 300)] == verdicts[200:]
    assert verdicts[220] is not None
