"""The next optimizer step from where a training stands: its samples, their length, its learning rate.

From the position alone, not from the step's number: a batch or a schedule that changed on the way (on_change: continue)
then needs no history.
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
    """Samples that are trained on."""
    skipped_samples: int
    """Samples that are left out on the way to its last one."""
    micro_batch_size: int
    """Samples that a replica takes through the pipeline at a time."""
    sequence_length: int
    """Tokens of a sample."""
    learning_rate: float
    """Belongs to the position that the step ends at: (consumed samples, learning rate) is the pair of BLOOM's log, and
    no first step is lost at rate 0."""

    @property
    def tokens(self) -> int:
        """Tokens that are trained on."""
        return self.global_batch_size * self.sequence_length


@lru_cache(maxsize=8)
def _positions(batch: BatchConfig, train_samples: int) -> int:
    """A walk over the batch sizes, of which there may be thousands: not for each step anew."""
    return samples_to_read(batch, train_samples)


def next_step(
    model: ModelConfig, training: TrainingConfig, consumed_samples: int, consumed_tokens: int
) -> PlannedStep | None:
    """The step that begins at this position; None where the training ends."""
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
