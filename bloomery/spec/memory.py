"""Compute the memory of one GPU for every pipeline stage: weights, gradients, optimizer, activations and buffers.

Activations are what the layers save for the backward pass. They are counted as in Korthikanti et al. 2022
(arXiv:2205.05198) for this project's block, which saves no masks of dropout. Fused attention saves its output, but no
attention weights. A test compares the count with what the real block saves.
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
    from bloomery.config.training import OptimizerConfig, TrainingConfig

WEIGHT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
GRADIENT_BYTES = 4
"""Bytes of a parameter's gradient, which is summed in fp32 and not split over replicas (DeepSpeed's BF16_Optimizer)."""
MASTER_BYTES = 4
"""Bytes of a parameter's fp32 master weight. In fp32 precision too, DeepSpeed holds a flat copy of the weights."""
MOMENT_BYTES = 4
"""Bytes of one fp32 moment of a parameter. Adam and LAMB have two (LAMB's dialect `innovation` has three), SGD with
momentum has one."""

RUNTIME_BYTES = 2 * 2**30
"""Bytes of the CUDA context, NCCL's channels and the allocator's rounding. The value is an assumption."""
USABLE_SHARE = 0.95
"""Share of a GPU's memory that a training can use. The rest is lost to fragmentation. The value is an assumption."""


def moment_count(optimizer: OptimizerConfig) -> int:
    """Return the number of fp32 moments that the optimizer holds for each parameter."""
    if optimizer.kind == "sgd":
        return 1 if optimizer.momentum else 0
    return 3 if optimizer.kind == "lamb" and optimizer.lamb.dialect == "innovation" else 2


def _update_bytes(optimizer: OptimizerConfig) -> int:
    """Return the bytes of fp32 temporaries for each parameter of a rank's part in a step on a GPU.

    Only LAMB's dialect `innovation` has some: two updates, their divisors and two more. The others overwrite the
    gradient.
    """
    return 24 if optimizer.kind == "lamb" and optimizer.lamb.dialect == "innovation" else 0


def bytes_per_parameter(precision: str, moments: int = 2) -> int:
    """Return the bytes of training state for one parameter if it is not split.

    In 16-bit precision with Adam this is 18 bytes (2 + 4 + 4 + 8).
    """
    return WEIGHT_BYTES[precision] + GRADIENT_BYTES + MASTER_BYTES + moments * MOMENT_BYTES


@dataclass(frozen=True)
class StageMemory:
    """Memory of one GPU of a stage, in bytes."""

    stage: int
    """Index of the stage, from 0."""
    parameters: int
    """Number of parameters that the GPU holds."""
    weights: int
    gradients: int
    optimizer: int
    """Master weights and moments, split over the replicas (ZeRO-1)."""
    activations: int
    """Activations with the configured recomputation."""
    activations_recomputed: int
    activations_kept: int
    """Activations without recomputation."""
    activations_selective: int
    """Activations if everything except matrix products and attention is recomputed."""
    buffers: int
    """Logits on the last stage, micro-batches in transit between stages, ALiBi's bias and the CUDA runtime."""

    @property
    def total(self) -> int:
        """Sum of all bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.buffers


def memory(config: RunConfig) -> list[StageMemory]:
    """Return the memory of one GPU of every stage, at the full batch."""
    rows = planned_rows(config)
    parts = stages(config.model, config.training, rows)
    return [_of_stage(config, number, stage, len(parts), rows) for number, stage in enumerate(parts)]


def usable_bytes(memory_bytes: int) -> int:
    """Return the bytes of a GPU's memory that a training can use."""
    return int(memory_bytes * USABLE_SHARE)


def ends_and_middle(found: list[StageMemory]) -> dict[str, StageMemory]:
    """Return the first, a middle and the last stage. In a short pipeline some of them are the same stage."""
    return {"first": found[0], "middle": found[len(found) // 2], "last": found[-1]}


def _of_stage(config: RunConfig, number: int, stage: Stage, count: int, rows: int) -> StageMemory:
    training = config.training
    parallel, precision, held = training.parallel, training.precision, stage.shard_parameters
    split = -(-held // parallel.data)
    largest = largest_micro_batch(training.batch)
    micro_batches = training.batch.global_batch_size // (largest * parallel.data)
    # In the 1F1B schedule a stage holds as many micro-batches as there are stages from it to the end of the pipeline.
    in_flight = max(1, min(count - number, micro_batches))
    blocks, whole = in_flight * stage.blocks, activation_bytes(config.model, training)
    activations = {
        "full": blocks * block_input_bytes(config) + whole,
        "selective": blocks * selective_bytes(config.model, training) + whole,
        "none": blocks * whole,
    }
    buffers = RUNTIME_BYTES + 2 * block_input_bytes(config) * (2 if count > 1 else 0)
    buffers += split * _update_bytes(training.optimizer)
    # In a backward pass, two more tensors of the size of the attention weights exist at a time.
    buffers += 2 * attention_weight_bytes(config.model, training) if is_eager(training) else 0
    if config.model.positions == "alibi" and training.kernels.attention not in ("flex", "flash"):
        # Attention kernels other than flex and flash read mask and ALiBi as one additive bias, which the blocks of a
        # rank share.
        squares = config.model.sequence_length**2 * config.model.heads // parallel.tensor
        buffers += squares * WEIGHT_BYTES[precision]
    if stage.last:
        tokens = largest * output_length(config)
        # The logits and their gradient are in the model's precision. fp32 values exist only for a few rows at a time.
        buffers += tokens * rows // parallel.tensor * 2 * WEIGHT_BYTES[precision]
    if stage.first:
        ends = in_flight * block_input_bytes(config) * (2 if config.model.embedding_layernorm else 1)
        activations = {name: size + ends for name, size in activations.items()}
    return StageMemory(
        stage=number,
        parameters=held,
        weights=held * WEIGHT_BYTES[precision],
        gradients=held * GRADIENT_BYTES,
        optimizer=split * (MASTER_BYTES + moment_count(training.optimizer) * MOMENT_BYTES),
        activations=activations[training.activation_checkpointing],
        activations_recomputed=activations["full"],
        activations_kept=activations["none"],
        activations_selective=activations["selective"],
        buffers=buffers,
    )


def output_length(config: RunConfig) -> int:
    """Return the number of tokens of a sample for which logits are computed."""
    return config.model.decoder_sequence_length or config.model.sequence_length


def block_input_bytes(config: RunConfig) -> int:
    """Return the bytes of the residual stream [batch, length, hidden] of the largest micro-batch on one rank.

    With sequence parallelism a rank holds only its part of the length.
    """
    parallel, samples = config.training.parallel, largest_micro_batch(config.training.batch)
    return stream_bytes(config, samples) // (parallel.tensor if parallel.sequence_parallel else 1)


def stream_bytes(config: RunConfig, samples: int) -> int:
    """Return the bytes of the whole residual stream of `samples` samples."""
    model, precision = config.model, config.training.precision
    return samples * model.sequence_length * model.hidden_size * WEIGHT_BYTES[precision]


def activation_bytes(model: ModelConfig, training: TrainingConfig) -> int:
    """Return the bytes that one block saves of the largest micro-batch for its backward pass, on one rank.

    Per token it saves these elements of the model's precision:

    - 4 h for the inputs and outputs of both LayerNorms, split only by sequence parallelism;
    - 3 h (q, k, v), h (attention's output) and 2 f (before and after GELU) or 3 f (SwiGLU's gate, up and product),
      split by tensor parallelism.

    It also saves fp32 numbers: two for each LayerNorm, and one for each head (the logarithm of the softmax's sum).

    The attention `eager` saves the attention weights instead of that logarithm, and with dropout also the weights that
    it kept.
    """
    hidden, ffn, tensor = model.hidden_size, model.ffn_size, training.parallel.tensor
    sequence = tensor if training.parallel.sequence_parallel else 1
    tokens = largest_micro_batch(training.batch) * model.sequence_length
    inner = 4 * hidden + (3 if model.activation == "swiglu" else 2) * ffn
    elements = 4 * hidden / sequence + inner / tensor
    eager = is_eager(training)
    statistics = 4 * (2 * 2 / sequence + (0 if eager else model.heads / tensor))
    saved = int(tokens * (elements * WEIGHT_BYTES[training.precision] + statistics))
    copies = (2 if training.dropout.attention else 1) if eager else 0
    return saved + copies * attention_weight_bytes(model, training)


def selective_bytes(model: ModelConfig, training: TrainingConfig) -> int:
    """Return the bytes that one block saves of the largest micro-batch under selective recomputation, on one rank.

    Everything except matrix products and attention is recomputed. Per token the block saves:

    - its input h, split by sequence parallelism;
    - the outputs of the four matrices: 3 h and f (SwiGLU: 2 f), split by tensor parallelism, and 2 h, not split because
      they are saved before the sum over the tensor-parallel ranks;
    - attention's output h and one fp32 number for each head, split by tensor parallelism. The attention `eager` is
      computed again, so it saves neither.
    """
    hidden, ffn, tensor = model.hidden_size, model.ffn_size, training.parallel.tensor
    sequence = tensor if training.parallel.sequence_parallel else 1
    tokens = largest_micro_batch(training.batch) * model.sequence_length
    eager = is_eager(training)
    inner = (3 if eager else 4) * hidden + (2 if model.activation == "swiglu" else 1) * ffn
    elements = hidden / sequence + 2 * hidden + inner / tensor
    statistics = 0 if eager else 4 * model.heads / tensor
    return int(tokens * (elements * WEIGHT_BYTES[training.precision] + statistics))


def is_eager(training: TrainingConfig) -> bool:
    """Return whether the configuration requires the attention `eager`, which stores the attention weights.

    On a CPU, `auto` can also select `eager`. Memory is planned for GPUs.
    """
    return training.kernels.attention == "eager" or training.dropout.attention > 0


def attention_weight_bytes(model: ModelConfig, training: TrainingConfig) -> int:
    """Return the bytes of the attention weights [batch, heads, length, length] of the largest micro-batch on a rank."""
    squares = largest_micro_batch(training.batch) * model.sequence_length**2 * model.heads // training.parallel.tensor
    return squares * WEIGHT_BYTES[training.precision]
