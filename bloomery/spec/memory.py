"""Memory of one GPU: weights, gradients, optimizer, activations, buffers; for every pipeline stage.

Activations: what the layers save for the backward pass, counted as in Korthikanti et al. 2022 (arXiv:2205.05198), for
this project's block (no dropout, fused attention that saves its output but no scores). A test compares the count with
what the real block saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.spec.batch import largest_micro_batch
from bloomery.spec.parameters import planned_rows
from bloomery.spec.partition import Stage, stages

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig
    from bloomery.config.training import TrainingConfig

WEIGHT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
GRADIENT_BYTES = 4
"""Gradients are summed in fp32, unsplit (DeepSpeed's BF16_Optimizer)."""
MASTER_BYTES = 4
"""fp32 master weights; in fp32 DeepSpeed keeps its own flat copy of the weights."""
MOMENTS_BYTES = 8
"""Two fp32 moments (Adam, LAMB)."""

RUNTIME_BYTES = 2 * 2**30
"""CUDA context, NCCL's channels, the allocator's rounding: an assumption, not arithmetic."""
USABLE_SHARE = 0.95
"""Of a GPU's memory; the rest is lost between the allocator's blocks: an assumption."""


def bytes_per_parameter(precision: str) -> int:
    """Training state of one parameter that is not split: 18 bytes in 16-bit precision (2 + 4 + 4 + 8)."""
    return WEIGHT_BYTES[precision] + GRADIENT_BYTES + MASTER_BYTES + MOMENTS_BYTES


def checkpoint_bytes_per_parameter(precision: str) -> int:
    """What a checkpoint holds of one parameter: 14 bytes in 16-bit precision (BLOOM-176B: 2.24 TiB); no gradients."""
    return bytes_per_parameter(precision) - GRADIENT_BYTES


@dataclass(frozen=True)
class StageMemory:
    """Bytes on one GPU of a stage."""

    stage: int
    """Number of the stage, from 0."""
    parameters: int
    """Parameters that the GPU holds."""
    weights: int
    gradients: int
    optimizer: int
    """Master weights and moments, split over the replicas (ZeRO-1)."""
    activations: int
    """As configured, with or without recomputation."""
    activations_recomputed: int
    activations_kept: int
    """Without recomputation."""
    activations_selective: int
    """With all but matrix products and attention recomputed."""
    buffers: int
    """Logits on the last stage, micro-batches on their way, the runtime."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.buffers


def memory(config: RunConfig) -> list[StageMemory]:
    """Every stage's memory at the full batch, on a GPU."""
    rows = planned_rows(config)
    parts = stages(config.model, config.training, rows)
    return [_of_stage(config, number, stage, len(parts), rows) for number, stage in enumerate(parts)]


def usable_bytes(memory_bytes: int) -> int:
    """What of a GPU's memory a training may plan with."""
    return int(memory_bytes * USABLE_SHARE)


def ends_and_middle(found: list[StageMemory]) -> dict[str, StageMemory]:
    """The first, a middle and the last stage; the same one where the pipeline is short."""
    return {"first": found[0], "middle": found[len(found) // 2], "last": found[-1]}


def _of_stage(config: RunConfig, number: int, stage: Stage, count: int, rows: int) -> StageMemory:
    training = config.training
    parallel, precision, held = training.parallel, training.precision, stage.shard_parameters
    split = -(-held // parallel.data)
    largest = largest_micro_batch(training.batch)
    micro_batches = training.batch.global_batch_size // (largest * parallel.data)
    # One forward, one backward (1F1B): a stage holds as many micro-batches as there are stages from it to the end.
    in_flight = max(1, min(count - number, micro_batches))
    blocks, whole = in_flight * stage.blocks, activation_bytes(config.model, training)
    activations = {
        "full": blocks * block_input_bytes(config) + whole,
        "selective": blocks * selective_bytes(config.model, training) + whole,
        "none": blocks * whole,
    }
    buffers = RUNTIME_BYTES + 2 * block_input_bytes(config) * (2 if count > 1 else 0)
    if config.model.positions == "alibi" and training.kernels.attention not in ("flex", "flash"):
        # Mask and ALiBi in one additive bias, shared by the blocks of a rank.
        squares = config.model.sequence_length**2 * config.model.heads // parallel.tensor
        buffers += squares * WEIGHT_BYTES[precision]
    if stage.last:
        tokens = largest * output_length(config)
        # The logits and their gradient; fp32 and the softmax exist for a few rows at a time.
        buffers += tokens * rows // parallel.tensor * 2 * WEIGHT_BYTES[precision]
    if stage.first:
        ends = in_flight * block_input_bytes(config) * (2 if config.model.embedding_layernorm else 1)
        activations = {name: size + ends for name, size in activations.items()}
    return StageMemory(
        stage=number,
        parameters=held,
        weights=held * WEIGHT_BYTES[precision],
        gradients=held * GRADIENT_BYTES,
        optimizer=split * (MASTER_BYTES + MOMENTS_BYTES),
        activations=activations[training.activation_checkpointing],
        activations_recomputed=activations["full"],
        activations_kept=activations["none"],
        activations_selective=activations["selective"],
        buffers=buffers,
    )


def output_length(config: RunConfig) -> int:
    """Tokens of a sample for which logits are computed."""
    return config.model.decoder_sequence_length or config.model.sequence_length


def block_input_bytes(config: RunConfig) -> int:
    """The residual stream of the largest micro-batch, [batch, length, hidden], on one rank: all, or its part of the
    length."""
    parallel, samples = config.training.parallel, largest_micro_batch(config.training.batch)
    return stream_bytes(config, samples) // (parallel.tensor if parallel.sequence_parallel else 1)


def stream_bytes(config: RunConfig, samples: int) -> int:
    """The whole residual stream of so many samples."""
    model, precision = config.model, config.training.precision
    return samples * model.sequence_length * model.hidden_size * WEIGHT_BYTES[precision]


def activation_bytes(model: ModelConfig, training: TrainingConfig) -> int:
    """What one block saves of the largest micro-batch for its backward pass, on one rank.

    Per token, in elements of the precision: 4 h (the inputs of both LayerNorms and what they put out), whole or split
    by sequence parallelism, and, split over tensor parallelism, 3 h (q, k, v), h (attention's output) and 2 f (before
    and after GELU) or 3 f (gate and up, their product); and fp32 numbers, two for each LayerNorm and one for each head
    (the logarithm of attention's sum).
    """
    hidden, ffn, tensor = model.hidden_size, model.ffn_size, training.parallel.tensor
    sequence = tensor if training.parallel.sequence_parallel else 1
    tokens = largest_micro_batch(training.batch) * model.sequence_length
    inner = 4 * hidden + (3 if model.activation == "swiglu" else 2) * ffn
    elements = 4 * hidden / sequence + inner / tensor
    statistics = 4 * (2 * 2 / sequence + model.heads / tensor)
    return int(tokens * (elements * WEIGHT_BYTES[training.precision] + statistics))


def selective_bytes(model: ModelConfig, training: TrainingConfig) -> int:
    """What one block keeps of the largest micro-batch when all but matrix products and attention is computed again.

    Per token: its input h (split by sequence parallelism), what the four matrices put out (3 h and f or 2 f split over
    tensor parallelism; 2 h before they are summed over it) and attention's output h with a number for each head.
    """
    hidden, ffn, tensor = model.hidden_size, model.ffn_size, training.parallel.tensor
    sequence = tensor if training.parallel.sequence_parallel else 1
    tokens = largest_micro_batch(training.batch) * model.sequence_length
    inner = 4 * hidden + (2 if model.activation == "swiglu" else 1) * ffn
    elements = hidden / sequence + 2 * hidden + inner / tensor
    return int(tokens * (elements * WEIGHT_BYTES[training.precision] + 4 * model.heads / tensor))
