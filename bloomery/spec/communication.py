"""Bytes that one GPU sends in an iteration, by what they are for (ring algorithms; Narayanan et al. 2021)."""

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
    """Bytes sent by a GPU of the fullest stage."""

    tensor: int
    """All-reduces within blocks, over all micro-batches; with sequence parallelism all-gathers and reduce-scatters."""
    pipeline: int
    """Activations to the next stage and gradients to the one before."""
    data: int
    """Gradients' all-reduce and the all-gather of the updated weights (ZeRO-1)."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.tensor + self.pipeline + self.data


def reductions(training: TrainingConfig) -> float:
    """All-reduces of the residual stream in one block, for one micro-batch (a test counts them on real ranks).

    Two in the forward pass, two in the backward pass, one more where the block is recomputed (selectively too), which
    ends before the second. An all-gather or a reduce-scatter is half of one; with sequence parallelism two matrices
    gather their inputs again in the backward pass.
    """
    split, again = training.parallel.sequence_parallel, training.activation_checkpointing != "none"
    return (5.0 if split else 4.0) + (1.5 if split else 1.0) * again


def communication(config: RunConfig, batch_samples: int, sequence_length: int | None = None) -> Communication:
    """Bytes of an iteration of `batch_samples` samples of `sequence_length` tokens (None: the model's)."""
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
