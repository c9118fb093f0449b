"""Simulate the records of a healthy training: losses, speeds, times of ranks and loss scales.

- Losses and gradient norms are those of `simulated_losses`, without spikes.
- The speed has 2 % of noise (normal distribution), and one iteration in 200 takes 2 to 5 times as long, as after a
  validation or a pause of the file system.
- 8 ranks compute with 1 % of noise. The last rank has 10 % more work than the others.
- The loss scale doubles every 500 iterations and is halved by overflows, which are more frequent at larger scales.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
from simulated_losses import Plan, simulate

from bloomery.contracts.metrics_record import MetricsRecord

_START = datetime(2026, 1, 1, tzinfo=UTC)
RANKS = 8
SECONDS = 10.0
"""Usual duration of an iteration."""


def clean_records(plan: Plan, iterations: int, seed: int) -> Iterator[MetricsRecord]:
    """Yield the records of the first `iterations` iterations of a healthy training."""
    losses = simulate(plan, iterations, seed)
    random = np.random.default_rng(seed + 1)
    slow = np.where(random.random(iterations) < 1 / 200, random.uniform(2, 5, iterations), 1.0)
    seconds = SECONDS * slow * np.exp(0.02 * random.standard_normal(iterations))
    work = np.exp(0.01 * random.standard_normal((iterations, RANKS)))
    work[:, -1] *= 1.1
    scales = _loss_scales(random, iterations)
    tokens, time = plan.batch * 2048, _START
    for number, (iteration, loss, norm, length) in enumerate(losses.rows()):
        time += timedelta(seconds=float(seconds[number]))
        scale, overflowed = scales[number]
        yield MetricsRecord.model_construct(
            iteration=iteration,
            consumed_samples=plan.batch * iteration,
            consumed_tokens=tokens * iteration,
            global_batch_size=plan.batch,
            learning_rate=1e-4,
            loss=loss,
            grad_norm=None if overflowed else norm,
            seconds=float(seconds[number]),
            tokens_per_second=tokens / float(seconds[number]),
            tflops_hardware=100.0,
            tflops_model=100.0,
            samples_per_second=plan.batch / float(seconds[number]),
            total_iterations=iterations,
            segment=1,
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            sequence_length=length,
            loss_scale=scale,
            overflowed=overflowed,
            fastest_rank=int(work[number].argmin()),
            fastest_seconds=float(work[number].min()),
            slowest_rank=int(work[number].argmax()),
            slowest_seconds=float(work[number].max()),
        )


def _loss_scales(random: np.random.Generator, iterations: int) -> list[tuple[float, bool]]:
    """Return (loss scale, whether the gradient overflowed) of each iteration."""
    power, since, spent, found = 16, 0, 0, []
    for _ in range(iterations):
        # At 2^16 one iteration in 2,000 overflows; at twice the scale, four times as many.
        overflows = bool(random.random() < 4.0 ** (power - 16) / 2000)
        found.append((2.0**power, overflows))
        since = 0 if overflows else since + 1
        spent += overflows
        if overflows and spent >= 2:
            power = max(0, power - 1)
        elif since == 500:
            power, since, spent = power + 1, 0, 0
    return found
