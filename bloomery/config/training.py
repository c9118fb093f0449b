"""Training: layout, batch, schedule, precision; `training_loop` has what goes on beside learning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from bloomery.config.section import Count, NotBool, Positive, Section
from bloomery.config.training_loop import (
    CheckpointConfig,
    EnergyConfig,
    GuardsConfig,
    KernelsConfig,
    LossScaleConfig,
    SegmentConfig,
    SkipRange,
    ValidationConfig,
)

Beta = Annotated[float, Field(ge=0.0, lt=1.0), NotBool]
"""Decay of a running mean: with exactly 1 it would never move."""


class ParallelConfig(Section):
    """How the model is spread: world size = tensor x pipeline x data."""

    tensor: Positive = 1
    """Tensor-parallel size: each matrix is split over this many ranks."""
    pipeline: Positive = 1
    """Pipeline-parallel size: the layers are split into this many stages."""
    data: Positive = 1
    """Data-parallel size: replicas of the model."""
    sequence_parallel: bool = False
    """Split the activations between the tensor-parallel regions along the sequence, over the same ranks."""

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return self.tensor * self.pipeline * self.data


class RampupConfig(Section):
    """Batch ramp-up: the global batch grows by `increment` in equal pieces of `samples`."""

    start: Positive
    """First global batch size, samples."""
    increment: Positive
    """Step by which the batch grows, samples."""
    samples: Positive
    """Samples over which it grows to `global_batch_size`."""


class MicroBatchChange(Section):
    """Another micro-batch from some batch of the ramp-up on: a pipeline has enough of the larger ones by then."""

    from_batch: Positive
    """First global batch size with it, samples."""
    size: Positive
    """Micro-batch size, samples."""


class BatchConfig(Section):
    """Batches, in samples."""

    micro_batch_size: Positive = 1
    """Samples that one replica takes through the pipeline at a time."""
    micro_batch_changes: tuple[MicroBatchChange, ...] = ()
    """Other micro-batch sizes while the batch ramps up, `from_batch` ascending (BLOOM had 1, and 2 from a batch of 784
    on)."""
    global_batch_size: Positive
    """Samples of one optimizer step."""
    rampup: RampupConfig | None = None
    """Batch ramp-up; null: the global batch from the start."""


class CurriculumConfig(Section):
    """Sequence-length curriculum: samples are cut to a length that grows to `model.sequence_length`."""

    start_length: Positive
    """First length, tokens."""
    length_step: Positive = 8
    """The length grows in multiples of this (8: what tensor cores want)."""
    samples: Positive
    """Samples over which it grows."""


class OptimizerConfig(Section):
    """Optimizer and its schedule, in samples or tokens."""

    kind: Literal["adam", "sgd", "lamb"] = "adam"
    """`adam`: with decoupled weight decay; `sgd`. LAMB is planned, not yet trained."""
    learning_rate: Annotated[float, Field(gt=0), NotBool]
    """Peak learning rate."""
    min_learning_rate: Annotated[float, Field(ge=0), NotBool] = 0.0
    """Learning rate after the decay."""
    warmup_samples: Count = 0
    """Samples of linear warm-up."""
    warmup_tokens: Positive | None = None
    """Tokens of linear warm-up, instead of samples (for a curriculum)."""
    decay_samples: Positive | None = None
    """Samples at which the decay ends; null: the end of training."""
    decay_tokens: Positive | None = None
    """Tokens at which the decay ends, instead of samples (for a curriculum)."""
    schedule: Literal["cosine", "linear", "constant", "wsd"] = "cosine"
    """Shape of the decay; `wsd`: stable at the peak, then linear over the cooldown (warm-up, stable, decay)."""
    cooldown_samples: Positive | None = None
    """wsd: samples of the decay, the last before its end; null: a tenth of them."""
    cooldown_tokens: Positive | None = None
    """wsd: tokens of the decay, where it ends by tokens."""
    momentum: Beta = 0.0
    """SGD's momentum."""
    beta1: Beta = 0.9
    """Adam's first moment."""
    beta2: Beta = 0.95
    """Adam's second moment."""
    epsilon: Annotated[float, Field(gt=0), NotBool] = 1e-8
    """Adam's epsilon."""
    weight_decay: Annotated[float, Field(ge=0), NotBool] = 0.1
    """Weight decay of matrices, decoupled (SGD: added to the gradient); biases and LayerNorms do not decay."""
    gradient_clipping: Annotated[float, Field(ge=0), NotBool] = 1.0
    """Greatest norm of the gradient; 0: no clipping."""


class TrainingConfig(Section):
    """The training run."""

    train_samples: Positive
    """Samples to train on in all; a last batch that they cannot fill is not run."""
    train_tokens: Positive | None = None
    """Training also ends with the first iteration that reaches this many tokens (for a curriculum); null: no such end.
    """
    parallel: ParallelConfig = ParallelConfig()
    """Layout."""
    batch: BatchConfig
    """Batches."""
    curriculum: CurriculumConfig | None = None
    """Sequence-length curriculum; null: whole samples."""
    optimizer: OptimizerConfig
    """Optimizer and schedule."""
    precision: Literal["bf16", "fp16", "fp32"] = "bf16"
    """`bf16`, `fp16`: 16-bit weights, fp32 master weights (fp16 with dynamic loss scaling); `fp32`: all in float32."""
    loss_scale: LossScaleConfig = LossScaleConfig()
    """fp16's dynamic loss scaling."""
    gradient_accumulation: Literal["fp32", "same"] = "fp32"
    """Type in which gradients of micro-batches are summed: `fp32`, or the `same` as the weights' (refused for bf16)."""
    zero_stage: Literal[0, 1, 2, 3] = 1
    """ZeRO stage: 1 splits the optimizer's state over the replicas. 0 runs as 1, the same numbers in less memory;
    2 and 3 are refused: the pipeline engine cannot split gradients."""
    activation_checkpointing: Literal["full", "selective", "none"] = "full"
    """What the backward pass computes again: each block whole; `selective`: all but matrix products and attention;
    nothing."""
    partition: Annotated[str, Field(pattern="^(parameters|uniform|type:.+)$")] = "parameters"
    """How layers are distributed over pipeline stages: `parameters`: by cost, embedding and head included; `uniform`:
    in equal numbers; `type:REGEX`: in equal numbers of the layers whose kind (embedding, norm, transformer, head)
    matches, such as `type:transformer|embedding`, where a tied head is an embedding too."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Checkpoints."""
    validation: ValidationConfig = ValidationConfig()
    """Validation."""
    segment: SegmentConfig = SegmentConfig()
    """Segments."""
    guards: GuardsConfig = GuardsConfig()
    """Guards."""
    skip: list[SkipRange] = []
    """Ranges of samples that are not trained on, beside those that a roll-back skipped."""
    kernels: KernelsConfig = KernelsConfig()
    """Kernels."""
    energy: EnergyConfig | None = None
    """Energy and CO2; null: not measured."""
    on_change: Literal["restart", "continue", "refuse"] = "restart"
    """When model, data, layout or schedule differ from the checkpoints': `restart` moves the old training to
    train/archive/ and begins anew; `continue` goes on from the checkpoint where the key's resume policy allows it and
    stops where not; `refuse` stops with the differences."""
    threads_per_rank: Positive = 1
    """CPU threads of each process (OMP_NUM_THREADS)."""
    peak_tflops: Annotated[float, Field(gt=0), NotBool] | None = None
    """Peak of one device in TFLOP/s, for MFU (A100 bf16: 312); null: no MFU."""

    @field_validator("activation_checkpointing", mode="before")
    @classmethod
    def _as_in_0_1(cls, value: object) -> object:
        """0.1.0 wrote true and false, for the two that it had: its runs and checkpoints are still read."""
        return ("full" if value else "none") if isinstance(value, bool) else value
