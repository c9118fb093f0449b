"""The global batch as a function of consumed samples (Megatron's ramp-up rule).

The batch is `start + steps * increment` with `steps = int(consumed / (ramp_samples / increments))` while
`consumed <= ramp_samples`, and the full batch after. Checked against BLOOM's published log (tests/plan).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.training import BatchConfig


def global_batch_size(batch: BatchConfig, consumed_samples: int) -> int:
    """Samples of the optimizer step that starts after `consumed_samples`."""
    ramp = batch.rampup
    if ramp is None or consumed_samples > ramp.samples or ramp.start >= batch.global_batch_size:
        return batch.global_batch_size
    increments = (batch.global_batch_size - ramp.start) // ramp.increment
    steps = int(consumed_samples / (ramp.samples / increments))
    return min(ramp.start + steps * ramp.increment, batch.global_batch_size)


def ladder_rungs(batch: BatchConfig) -> list[int]:
    """Every global batch size that the run passes through, ascending."""
    ramp = batch.rampup
    if ramp is None:
        return [batch.global_batch_size]
    return [*range(ramp.start, batch.global_batch_size, ramp.increment), batch.global_batch_size]


@dataclass(frozen=True)
class Step:
    """One optimizer step. `consumed_samples` counts the samples before it."""

    iteration: int
    consumed_samples: int
    global_batch_size: int


def steps(batch: BatchConfig, train_samples: int) -> Iterator[Step]:
    """The steps of a run, iteration 1 first; the last one may pass `train_samples`, as in Megatron."""
    iteration, consumed = 0, 0
    while consumed < train_samples:
        iteration += 1
        size = global_batch_size(batch, consumed)
        yield Step(iteration, consumed, size)
        consumed += size


def total_iterations(batch: BatchConfig, train_samples: int) -> int:
    """Number of optimizer steps until `train_samples` are consumed. O(ramp-up steps), not O(run)."""
    iteration, consumed = 0, 0
    ramp_end = batch.rampup.samples if batch.rampup else -1
    while consumed < train_samples and consumed <= ramp_end:
        consumed += global_batch_size(batch, consumed)
        iteration += 1
    rest = max(0, train_samples - consumed)
    return iteration + -(-rest // batch.global_batch_size)


def samples_to_read(batch: BatchConfig, train_samples: int) -> int:
    """Samples that the run really reads: `train_samples` rounded up to a whole last batch."""
    iteration, consumed = 0, 0
    ramp_end = batch.rampup.samples if batch.rampup else -1
    while consumed < train_samples and consumed <= ramp_end:
        consumed += global_batch_size(batch, consumed)
        iteration += 1
    rest = max(0, train_samples - consumed)
    return consumed + -(-rest // batch.global_batch_size) * batch.global_batch_size
