"""Compute the global batch size from the consumed samples, and the micro-batch size from the global batch size.

The ramp-up follows Megatron. While `consumed <= ramp_samples`, the global batch size is `start + n * increment` with
`n = int(consumed / (ramp_samples / increments))` and `increments = (full - start) / increment`. Afterwards it is the
full batch size. A test compares the result with BLOOM's published log (tests/integration/plan).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.training import BatchConfig, ParallelConfig


def global_batch_size(batch: BatchConfig, consumed_samples: int) -> int:
    """Return the global batch size of the optimizer step that starts after `consumed_samples`."""
    ramp = batch.rampup
    if ramp is None or consumed_samples > ramp.samples or ramp.start >= batch.global_batch_size:
        return batch.global_batch_size
    increments = max(1, (batch.global_batch_size - ramp.start) // ramp.increment)
    steps = int(consumed_samples / (ramp.samples / increments))
    return min(ramp.start + steps * ramp.increment, batch.global_batch_size)


def ladder_rungs(batch: BatchConfig) -> list[int]:
    """Return every global batch size that the run uses, in ascending order."""
    ramp = batch.rampup
    if ramp is None:
        return [batch.global_batch_size]
    return [*range(ramp.start, batch.global_batch_size, ramp.increment), batch.global_batch_size]


def describe_batches(sizes: list[int]) -> str:
    """Describe the global batch sizes of a run, such as `16 samples`. `sizes` are in ascending order."""
    if len(sizes) == 1:
        return f"{sizes[0]} samples"
    return f"grows from {sizes[0]} to {sizes[-1]} samples, through {len(sizes)} batch sizes"


def micro_batch_size(batch: BatchConfig, batch_samples: int) -> int:
    """Return the micro-batch size of an optimizer step with a global batch of `batch_samples`."""
    reached = (change.size for change in reversed(batch.micro_batch_changes) if change.from_batch <= batch_samples)
    return next(reached, batch.micro_batch_size)


def largest_micro_batch(batch: BatchConfig) -> int:
    """Return the largest micro-batch size that the run uses, which determines the memory it needs."""
    return max([batch.micro_batch_size, *(change.size for change in batch.micro_batch_changes)])


def samples_of_time(batch: BatchConfig, parallel: ParallelConfig, batch_samples: int) -> int:
    """Return how long a pipeline stage takes for one optimizer step, in units of the time for one sample.

    With m micro-batches and p stages (1F1B) the step takes the time of m + p - 1 micro-batches. This includes the
    pipeline bubble.
    """
    bubble = (parallel.pipeline - 1) * micro_batch_size(batch, batch_samples)
    return batch_samples // parallel.data + bubble


@dataclass(frozen=True)
class Step:
    """One optimizer step. `consumed_samples` counts the samples before the step."""

    iteration: int
    consumed_samples: int
    global_batch_size: int


def steps(batch: BatchConfig, train_samples: int) -> Iterator[Step]:
    """Yield the steps of a run, starting with iteration 1. A last batch that cannot be filled is not run (as in
    Megatron)."""
    iteration, consumed = 0, 0
    while (size := global_batch_size(batch, consumed)) <= train_samples - consumed:
        iteration += 1
        yield Step(iteration, consumed, size)
        consumed += size


def leading(alike: Callable[[int], bool], most: int) -> int:
    """Return how many of the first `most` steps are like step 0. `most` must be at least 1.

    `alike(step)` must be true for the first steps and false for all later ones. The search is a bisection, so a ramp-up
    over any number of samples costs little.
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
    """Return the number of sample positions that the index holds for the run.

    This is `train_samples` without the samples that cannot fill a last batch. Skip ranges and `train_tokens` end a run
    earlier but do not change this number, so they never cause the index to be rebuilt. The cost is O(number of batch
    sizes), not O(number of steps).
    """
    consumed = 0
    while (size := global_batch_size(batch, consumed)) <= train_samples - consumed:
        consumed += size * _equal_steps(batch, consumed, (train_samples - consumed) // size)
    return consumed


def samples_of_iterations(batch: BatchConfig, iterations: int) -> int:
    """Return the number of samples that the first `iterations` steps consume if none are skipped.

    The number of steps is not limited by the length of the training. The cost is O(number of batch sizes).
    """
    consumed = 0
    while iterations:
        steps = _equal_steps(batch, consumed, iterations)
        consumed += steps * global_batch_size(batch, consumed)
        iterations -= steps
    return consumed


def iterations_of_samples(batch: BatchConfig, samples: int) -> int:
    """Return the smallest number of steps that consume at least `samples` samples if none are skipped.

    The number of steps is not limited by the length of the training. The cost is O(number of batch sizes).
    """
    iterations = consumed = 0
    while consumed < samples:
        size = global_batch_size(batch, consumed)
        steps = _equal_steps(batch, consumed, -((consumed - samples) // size))
        iterations += steps
        consumed += steps * size
    return iterations


def _equal_steps(batch: BatchConfig, consumed: int, most: int) -> int:
    """Return how many of the next `most` steps after `consumed` samples have the batch size of the first of them."""
    size = global_batch_size(batch, consumed)
    return leading(lambda step: global_batch_size(batch, consumed + step * size) == size, most)
