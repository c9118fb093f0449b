"""Simulate the losses and gradient norms of a training that is healthy or diverges slowly.

The trend of the loss is 1.49 + 1.776 x (tokens / 10^9)^-0.2. This curve goes through BLOOM's published losses of 2.464
at iteration 12,695 (20.2 x 10^9 tokens) and 2.20 at iteration 31,214 (97.8 x 10^9 tokens). The losses at the beginning
are at most ln(250,880), the loss of equal probabilities.

log(loss) also has these parts, each with its standard deviation:

- independent noise, Student's t with 5 degrees of freedom: 0.009 at a global batch of 2,048 samples, as in the
  published lines around iteration 31,214. It is inversely proportional to the square root of the global batch;
- noise with a correlation time of 20 iterations: a third of the independent noise;
- noise with a correlation time of 1,000 iterations: 0.003;
- during the warm-up, additional noise with a correlation time of 50 iterations: 0.01;
- spikes, on average one in 2,000 iterations: the loss rises by up to a factor of 2.3 (BLOOM's spike of April 2022), and
  the excess decays with a time of 2 to 8 iterations (published: about 2.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bloomery.detect.divergence import Divergence, DivergenceDetector

_VOCABULARY = 250_880
_WARMUP_ITERATIONS = 1000
FULL_LENGTH = 2048
"""Sequence length without a curriculum, in tokens."""


@dataclass(frozen=True)
class Plan:
    """Batches and sequence lengths of a simulated training."""

    batch: int = 2048
    """Global batch at the end of the ramp-up, in samples."""
    rampup_start: int = 2048
    """Global batch at the beginning, in samples."""
    rampup_samples: int = 0
    lengths: tuple[int, ...] = (FULL_LENGTH,)
    """Sequence lengths of the curriculum, in tokens."""
    curriculum_iterations: int = 0
    """Number of iterations after which the sequences have their full length. Each length lasts equally long."""
    spikes_per_iteration: float = 1 / 2000
    """Number of spikes divided by the number of iterations."""


PLANS = {
    "BLOOM: ramp-up from 192 to 2048 samples": Plan(rampup_start=192, rampup_samples=9_765_625),
    "constant batch of 2048 samples": Plan(),
    "constant batch of 16 samples": Plan(batch=16, rampup_start=16),
    "curriculum from 64 to 2048 tokens in steps of 8": Plan(
        lengths=tuple(range(64, 2049, 8)), curriculum_iterations=30_000
    ),
    "curriculum of 256, 512, 1024 and 2048 tokens": Plan(lengths=(256, 512, 1024, 2048), curriculum_iterations=30_000),
}
"""Trainings of the benchmark. The first has the batches of BLOOM-176B."""


@dataclass(frozen=True)
class Simulated:
    """Simulated iterations. Arrays have one value for each iteration."""

    first: int
    """Number of the first iteration."""
    trend: np.ndarray
    """Loss without noise."""
    loss: np.ndarray
    grad_norm: np.ndarray
    length: np.ndarray
    """Sequence length in tokens."""

    def rows(self) -> Iterator[tuple[int, float, float, int]]:
        """Yield (iteration, loss, gradient norm, sequence length)."""
        columns = (self.loss.tolist(), self.grad_norm.tolist(), self.length.tolist())
        for number, (loss, norm, length) in enumerate(zip(*columns, strict=True)):
            yield self.first + number, loss, norm, length


def simulate(plan: Plan, iterations: int, seed: int) -> Simulated:
    """Simulate the first `iterations` iterations of a healthy training."""
    return diverging(plan, iterations, 0, seed, first=1, climb=np.ones_like)


def diverging(
    plan: Plan,
    healthy: int,
    iterations: int,
    seed: int,
    *,
    first: int,
    climb: Callable[[np.ndarray], np.ndarray],
) -> Simulated:
    """Simulate `healthy` iterations from iteration `first` on, and then `iterations` of a divergence.

    `climb` returns the ratio of the trend to its last healthy value, for the number of iterations since the
    divergence began. The gradient norm rises fourfold while the loss rises by the factor 3.0 / 2.2.
    """
    random = np.random.default_rng(seed)
    count = healthy + iterations
    batches, lengths, tokens = _course(plan, first + count)
    batches, lengths, tokens = batches[first:], lengths[first:], tokens[first:]
    number = np.arange(first, first + count)
    trend = np.minimum(math.log(_VOCABULARY), 1.49 + 1.776 * (tokens / 1e9) ** -0.2)
    trend = trend * (1.0 + 0.02 * np.log2(FULL_LENGTH / lengths)) * _novelty(lengths)
    factor = np.ones(count)
    if iterations:
        factor[healthy:] = climb(np.arange(1, iterations + 1))
        trend[healthy:] = trend[healthy - 1]
    trend = trend * factor
    own = 0.009 * np.sqrt(2048 / batches)
    log = own * random.standard_t(5, count) / math.sqrt(5 / 3)
    log += own / 3 * _correlated(random, count, 20) + 0.003 * _correlated(random, count, 1000)
    log += np.where(number <= _WARMUP_ITERATIONS, 0.01, 0.0) * _correlated(random, count, 50)
    spikes = _spikes(random, count, plan.spikes_per_iteration)
    norm = 0.2 * np.exp(0.14 * random.standard_normal(count) + 5 * spikes) * factor ** (math.log(4) / math.log(3 / 2.2))
    return Simulated(first, trend, trend * np.exp(log + spikes), norm, lengths)


def _course(plan: Plan, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return global batch, sequence length and consumed tokens of the iterations 0 to `end` - 1."""
    batches = np.full(end, plan.batch, dtype=np.int64)
    samples, steps = 0, (plan.batch - plan.rampup_start) // 16
    for iteration in range(end):
        if not steps or samples >= plan.rampup_samples:
            break
        batches[iteration] = plan.rampup_start + 16 * int(samples * steps / plan.rampup_samples)
        samples += int(batches[iteration])
    each = max(1, plan.curriculum_iterations // len(plan.lengths))
    lengths = np.array(plan.lengths)[np.minimum(np.arange(end) // each, len(plan.lengths) - 1)]
    return batches, lengths, np.cumsum(batches * lengths)


def _novelty(lengths: np.ndarray) -> np.ndarray:
    """Return the factor by which positions that the model has not seen yet raise the loss.

    After each change of length, the factor decays towards 1 with a time constant of 100 iterations.
    """
    excess = np.zeros(len(lengths))
    for at in np.flatnonzero(np.diff(lengths)) + 1:
        new = 1.0 - lengths[at - 1] / lengths[at]
        excess[at : at + 600] += 0.2 * new * np.exp(-np.arange(len(excess[at : at + 600])) / 100)
    return 1.0 + excess


def _correlated(random: np.random.Generator, count: int, time: int) -> np.ndarray:
    """Return noise with a standard deviation of 1 and a correlation time in iterations (an AR(1) process)."""
    keep = math.exp(-1 / time)
    value, found = float(random.standard_normal()), []
    for each in (math.sqrt(1 - keep * keep) * random.standard_normal(count)).tolist():
        value = keep * value + each
        found.append(value)
    return np.array(found)


def _spikes(random: np.random.Generator, count: int, rate: float) -> np.ndarray:
    """Return what the spikes add to log(loss). `rate` is the number of spikes divided by the number of iterations."""
    added = np.zeros(count)
    for at in np.flatnonzero(random.random(count) < rate):
        height, time = min(0.84, float(random.exponential(0.3))), float(random.uniform(2, 8))
        added[at : at + 80] += height * np.exp(-np.arange(len(added[at : at + 80])) / time)
    return added


def climb(shape: str, duration: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the argument `climb` of `diverging` with which the loss rises by 3.0 / 2.2 in `duration` iterations.

    `shape` is `linear`, `accelerating` (quadratic) or `slowing` (square root).
    """
    power = {"linear": 1.0, "accelerating": 2.0, "slowing": 0.5}[shape]

    def factor(iterations: np.ndarray) -> np.ndarray:
        return 1.0 + (3.0 / 2.2 - 1.0) * np.minimum(iterations / duration, 1.0) ** power

    return factor


def alarms(detector: DivergenceDetector, run: Simulated) -> Iterator[Divergence]:
    """Show a run to a detector. Yield each divergence that it finds."""
    for iteration, loss, norm, length in run.rows():
        found = detector.seen(iteration, loss, norm, length=length)
        if found is not None:
            yield found
