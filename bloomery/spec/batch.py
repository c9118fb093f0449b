"""The global batch as a function of consumed samples (Megatron's ramp-up rule), the micro-batch as one of the batch.

The batch is `start + steps * increment` with `steps = int(consumed / (ramp_samples / increments))` while
`consumed <= ramp_samples`, and the full batch after. Checked against BLOOM's published log (tests/integration/plan).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.training import BatchConfig, ParallelConfig


def global_batch_size(batch: BatchConfig, consumed_samples: int) -> int:
    """Samples of the optimizer step that starts after `consumed_samples`."""
    ramp = batch.rampup
    if ramp is None or consumed_samples > ramp.samples or ramp.start >= batch.global_batch_size:
        return batch.global_batch_size
    increments = max(1, (batch.global_batch_size - ramp.start) // ramp.increment)
    steps = int(consumed_samples / (ramp.samples / increments))
    return min(ramp.start + steps * ramp.increment, batch.global_batch_size)


def ladder_rungs(batch: BatchConfig) -> list[int]:
    """Every global batch size that the run passes through, ascending."""
    ramp = batch.rampup
    if ramp is None:
        return [batch.global_batch_size]
    return [*range(ramp.start, batch.global_batch_size, ramp.increment), batch.global_batch_size]


def micro_batch_size(batch: BatchConfig, batch_samples: int) -> int:
    """Samples of a micro-batch in an optimizer step of `batch_samples`."""
    reached = (change.size for change in reversed(batch.micro_batch_changes) if change.from_batch <= batch_samples)
    return next(reached, batch.micro_batch_size)


def largest_micro_batch(batch: BatchConfig) -> int:
    """Samples of the largest micro-batch that the run passes through: what its memory must hold."""
    return max([batch.micro_batch_size, *(change.size for change in batch.micro_batch_changes)])


def samples_of_time(batch: BatchConfig, parallel: ParallelConfig, batch_samples: int) -> int:
    """How long a stage takes for an optimizer step of `batch_samples`, in samples: m + p - 1 turns of a micro-batch
    with m micro-batches and p stages (1F1B), the pipeline's bubble among them."""
    bubble = (parallel.pipeline - 1) * micro_batch_size(batch, batch_samples)
    return batch_samples // parallel.data + bubble


@dataclass(frozen=True)
class Step:
    """One optimizer step. `consumed_samples` counts the samples before it."""

    iteration: int
    consumed_samples: int
    global_batch_size: int


def steps(batch: BatchConfig, train_samples: int) -> Iterator[Step]:
    """The steps of a run, iteration 1 first; a last batch that cannot be filled is not run (as in Megatron)."""
    iteration, consumed = 0, 0
    while (size := global_batch_size(batch, consumed)) <= train_samples - consumed:
        iteration += 1
        yield Step(iteration, consumed, size)
        consumed += size


def leading(alike: Callable[[int], bool], most: int) -> int:
    """How many steps in a row are like step 0, at most `most` (1 or more): `alike(step)` is true, then false for good.

    By bisection, so that a ramp-up over any number of samples is walked at once.
    """
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if alike(middle - 1):
            low = middle
        else:
            high = middle - 1
    return low


def samples_to_read(batch: BatchConfig, train_samples: int) -> int:
    """Positions that the index holds for the run: `train_samples` without what is left for a last, unfilled batch.

    Skip ranges and `train_tokens` end a run earlier and leave this alone: the index is not built again for them.
    In O(batch sizes) and not O(run).
    """
    consumed = 0
    while (size := global_batch_size(batch, consumed)) <= train_samples - consumed:

        def alike(step: int, start: int = consumed, size: int = size) -> bool:
            return global_batch_size(batch, start + step * size) == size

        consumed += size * leading(alike, (train_samples - consumed) // size)
    return consumed
