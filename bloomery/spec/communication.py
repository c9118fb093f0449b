"""Compute the bytes that one GPU sends in an iteration, by purpose (ring algorithms; Narayanan et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.spec.memory import GRADIENT_BYTES, WEIGHT_BYTES, stream_bytes
from bloomery.spec.parameters import planned_rows
from bloomery.spec.partition import stages

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from bloomery.config.training import TrainingConfig


@dataclass(frozen=True)
class Communication:
    """Bytes that a GPU of the fullest pipeline stage sends in an iteration."""

    tensor: int
    """All-reduces within the blocks, for all micro-batches. With sequence parallelism they are all-gathers and
    reduce-scatters."""
    pipeline: int
    """Activations to the next stage and gradients to the previous stage."""
    data: int
    """All-reduce of the gradients and all-gather of the updated weights (ZeRO-1)."""

    @property
    def total(self) -> int:
        """Sum of all bytes."""
        return self.tensor + self.pipeline + self.data


def reductions(training: TrainingConfig) -> float:
    """Return the number of all-reduces of the residual stream in one block, for one micro-batch.

    There are two in the forward pass, two in the backward pass, and one more if the block is recomputed (fully or
    selectively). Recomputation stops before the second all-reduce of the forward pass. An all-gather or a
    reduce-scatter counts as half an all-reduce. With sequence parallelism two matrices gather their inputs again in the
    backward pass. A test counts the operations on real ranks.
    """
    split, again = training.parallel.sequence_parallel, training.activation_checkpointing != "none"
    return (5.0 if split else 4.0) + (1.5 if split else 1.0) * again


def communication(config: RunConfig, batch_samples: int, sequence_length: int | None = None) -> Communication:
    """Return the bytes that one GPU sends in an iteration of `batch_samples` samples of `sequence_length` tokens.

    If `sequence_length` is None, the model's sequence length is used.
    """
    training = config.training
    parallel, tensor, data = training.parallel, training.parallel.tensor, training.parallel.data
    parts = stages(config.model, training, planned_rows(config))
    stream = stream_bytes(config, batch_samples // data)
    if sequence_length is not None:
        stream = stream * sequence_length // config.model.sequence_length
    crossing = stream // (tensor if parallel.sequence_parallel else 1)
    blocks = max(stage.blocks for stage in parts)
    held = max(stage.shard_parameters for stage in parts)
    weights = WEIGHT_BYTES[training.precision]
    return Communication(
        tensor=int(2 * (tensor - 1) / tensor * reductions(training) * stream * blocks),
        pipeline=2 * crossing if parallel.pipeline > 1 else 0,
        data=int((data - 1) / data * held * (2 * GRADIENT_BYTES + weights)),
    )
