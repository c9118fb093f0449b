"""Compute the next optimizer step from a training's position: its samples, their length and its learning rate.

The step depends on the position alone, not on the step's number. Therefore no history is needed, even if the batch or a
schedule changed during the training (on_change: continue).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from bloomery.spec.batch import global_batch_size, micro_batch_size, samples_to_read
from bloomery.spec.curriculum import sequence_length
from bloomery.spec.learning_rate import learning_rate_at
from bloomery.spec.skip_arithmetic import Batch, next_batch

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import BatchConfig, TrainingConfig


@dataclass(frozen=True)
class PlannedStep:
    """One optimizer step."""

    batch: Batch
    global_batch_size: int
    """Number of samples that the step trains on."""
    skipped_samples: int
    """Number of samples that the step skips before its last sample."""
    micro_batch_size: int
    """Samples in one micro-batch of a replica."""
    sequence_length: int
    """Tokens of a sample."""
    learning_rate: float
    """Learning rate at the position where the step ends.

    This gives the pairs (consumed samples, learning rate) of BLOOM's log, and the first step is not wasted at rate 0.
    """

    @property
    def tokens(self) -> int:
        """Number of tokens that the step trains on."""
        return self.global_batch_size * self.sequence_length


@lru_cache(maxsize=8)
def _positions(batch: BatchConfig, train_samples: int) -> int:
    """Cache `samples_to_read`, which walks over all batch sizes, so that not every step repeats the walk."""
    return samples_to_read(batch, train_samples)


def next_step(
    model: ModelConfig, training: TrainingConfig, consumed_samples: int, consumed_tokens: int
) -> PlannedStep | None:
    """Return the step that begins at this position; None if the training ends here."""
    if training.train_tokens is not None and consumed_tokens >= training.train_tokens:
        return None
    size = global_batch_size(training.batch, consumed_samples)
    batch = next_batch(training.skip, consumed_samples, size)
    if batch.end > _positions(training.batch, training.train_samples):
        return None
    length = sequence_length(training.curriculum, model, consumed_samples, size)
    return PlannedStep(
        batch=batch,
        global_batch_size=size,
        skipped_samples=batch.end - consumed_samples - size,
        micro_batch_size=micro_batch_size(training.batch, size),
        sequence_length=length,
        learning_rate=learning_rate_at(model, training, batch.end, consumed_tokens + size * length),
    )
