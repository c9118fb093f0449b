"""Section `training`: layout, batch, schedule and precision. The file training_loop.py defines the sections inside it
for checkpoints, validation, segments, preflight, hangs, guards, kernels and energy."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails

from bloomery.config.lamb import LambConfig
from bloomery.config.section import Count, NotBool, Positive, Section
from bloomery.config.training_loop import (
    CheckpointConfig,
    EnergyConfig,
    GuardsConfig,
    HeartbeatConfig,
    KernelsConfig,
    LossScaleConfig,
    PreflightConfig,
    SegmentConfig,
    SkipRange,
    ValidationConfig,
)

Beta = Annotated[float, Field(ge=0.0, lt=1.0), NotBool]
"""Decay rate of a running mean. 1 is excluded, because such a mean would never change."""


Ranks = Annotated[int, Field(gt=0, le=100_000), NotBool]
"""Number of ranks in one dimension of the layout. The upper limit keeps plans small, because a plan lists the files of
each rank; the largest clusters have about 100,000 GPUs."""


class ParallelConfig(Section):
    """How the model is distributed over processes. The number of processes is tensor x pipeline x data."""

    tensor: Ranks = 1
    """Tensor-parallel size: number of ranks over which each matrix is split."""
    pipeline: Ranks = 1
    """Pipeline-parallel size: number of pipeline stages into which the layers are split."""
    data: Ranks = 1
    """Data-parallel size: number of replicas (complete copies) of the model."""
    sequence_parallel: bool = False
    """Outside the tensor-parallel matrix products, split the activations along the sequence over the tensor-parallel
    ranks. This needs `tensor` > 1 and sequence lengths that are divisible by `tensor`."""

    @property
    def world_size(self) -> int:
        """Number of processes of the training."""
        return self.tensor * self.pipeline * self.data


class RampupConfig(Section):
    """Batch ramp-up: the global batch grows by `increment` at equal intervals of samples (Megatron's rule)."""

    start: Annotated[Positive, Field(examples=[16])]
    """First global batch size, in samples."""
    increment: Annotated[Positive, Field(examples=[16])]
    """Number of samples by which the global batch grows at each step."""
    samples: Annotated[Positive, Field(examples=[6000000])]
    """Number of consumed samples after which the batch has grown to `global_batch_size`."""


class MicroBatchChange(Section):
    """A micro-batch size that replaces `micro_batch_size` once the global batch has grown to a given size. A larger
    batch holds enough large micro-batches to fill the pipeline."""

    from_batch: Annotated[Positive, Field(examples=[784])]
    """Smallest global batch size that uses this micro-batch size, in samples."""
    size: Annotated[Positive, Field(examples=[2])]
    """Number of samples in a micro-batch once the global batch has at least `from_batch` samples."""


class BatchConfig(Section):
    """Sizes of the global batch and of the micro-batches, in samples."""

    micro_batch_size: Positive = 1
    """Number of samples in a micro-batch, which one replica sends through the pipeline at a time."""
    micro_batch_changes: Annotated[
        tuple[MicroBatchChange, ...], Field(examples=[[{"from_batch": 784, "size": 2}]])
    ] = ()
    """Other micro-batch sizes for larger global batches of the ramp-up, in ascending order of `from_batch` (BLOOM: 1,
    and 2 from a global batch of 784 samples on)."""
    global_batch_size: Annotated[Positive, Field(examples=[512])]
    """Number of samples per optimizer step, over all replicas."""
    rampup: Annotated[RampupConfig | None, Field(examples=[{"start": 16, "increment": 16, "samples": 6000000}])] = None
    """Ramp-up of the global batch size. Default (null): every global batch has its full size."""


class BatchScalingConfig(Section):
    """Large-batch scaling: the peak learning rate follows from the global batch size, and the warm-up is a number of
    iterations. One section then describes the same training at several batch sizes."""

    base_batch: Annotated[Positive, Field(examples=[512])]
    """Global batch size to which `base_learning_rate` belongs, in samples."""
    base_learning_rate: Annotated[float, Field(gt=0, examples=[2.83e-3]), NotBool]
    """Peak learning rate for a global batch of `base_batch` samples."""
    rule: Literal["sqrt"] = "sqrt"
    """Rule for other batch sizes. `sqrt`: the peak learning rate is `base_learning_rate` x sqrt(global batch size /
    `base_batch`). With a ramp-up, the global batch size is the full size, `training.batch.global_batch_size`."""
    floor: Annotated[Annotated[float, Field(gt=0), NotBool] | None, Field(examples=[0.01])] = None
    """Lowest peak learning rate: a lower result of `rule` is raised to it. Default (null): no lower limit."""
    cap: Annotated[Annotated[float, Field(gt=0), NotBool] | None, Field(examples=[0.02])] = None
    """Highest peak learning rate: a higher result of `rule` is lowered to it. Default (null): no upper limit."""
    warmup_iterations: Annotated[Positive | None, Field(examples=[1024])] = None
    """Length of the warm-up in iterations. The learning rate rises linearly over the samples that these iterations
    consume, with their batch sizes of the ramp-up. Use it instead of `training.optimizer.warmup_samples`. Default
    (null): the keys of `training.optimizer` state the warm-up."""


class CurriculumConfig(Section):
    """Sequence-length curriculum: samples are cut to a length that grows to `model.sequence_length`."""

    start_length: Annotated[Positive, Field(examples=[64])]
    """Number of tokens to which the first samples are cut."""
    length_step: Positive = 8
    """The length of samples is always a multiple of this number of tokens. The number must be a multiple of 8, which
    suits tensor cores."""
    samples: Annotated[Positive, Field(examples=[6000000])]
    """Number of consumed samples after which samples have their full length."""


class DropoutConfig(Section):
    """Dropout during the training. Validation and exported models use none. What is dropped depends on the seed, the
    iteration, the sample and the element, and not on the layout. Probabilities are rounded to a multiple of 2^-16."""

    attention: Annotated[float, Field(ge=0, lt=1, examples=[0.1]), NotBool] = 0.0
    """Probability of dropping an attention weight. If it is above 0, `training.kernels.attention` must be `auto` or
    `eager`, because only `eager` computes the attention weights as a tensor."""
    hidden: Annotated[float, Field(ge=0, lt=1, examples=[0.1]), NotBool] = 0.0
    """Probability of dropping an element of the embeddings, of an attention layer's output and of a feed-forward
    layer's output."""


class OptimizerConfig(Section):
    """Optimizer and learning-rate schedule. The lengths of the schedule are stated in samples or in tokens."""

    kind: Literal["adam", "sgd", "lamb"] = "adam"
    """Kind of optimizer. `adam`: Adam with decoupled weight decay. `sgd`: SGD. `lamb`: LAMB for large batches, whose
    variants the section `lamb` selects."""
    lamb: LambConfig = LambConfig()
    """Variant of LAMB. Other values than the defaults are only allowed with `kind: lamb`."""
    learning_rate: Annotated[Annotated[float, Field(gt=0), NotBool] | None, Field(examples=[6e-5])] = None
    """Peak learning rate, which is reached at the end of the warm-up. Exactly one of this key and
    `training.batch_scaling` must be stated."""
    min_learning_rate: Annotated[float, Field(ge=0), NotBool] = 0.0
    """Learning rate at the end of the decay and after it."""
    warmup_samples: Count = 0
    """Number of samples over which the learning rate rises linearly from 0 to its peak (warm-up). The key
    `training.batch_scaling.warmup_iterations` states the warm-up in iterations instead."""
    warmup_tokens: Positive | None = None
    """Number of tokens over which the learning rate rises linearly from 0 to its peak. Use it instead of
    `warmup_samples`, for example with a curriculum. Default (null): `warmup_samples` applies."""
    decay_samples: Positive | None = None
    """Number of consumed samples at which the decay of the learning rate ends. Default (null):
    `training.train_samples`."""
    decay_tokens: Positive | None = None
    """Number of consumed tokens at which the decay of the learning rate ends. Use it instead of `decay_samples`, for
    example with a curriculum. Default (null): `decay_samples` applies."""
    schedule: Literal["cosine", "linear", "constant", "wsd"] = "cosine"
    """Shape of the decay of the learning rate from the peak to `min_learning_rate`. `constant`: no decay. `wsd`
    (warm-up, stable, decay): constant at the peak, then linear over the cooldown."""
    cooldown_samples: Positive | None = None
    """Length of the cooldown of `wsd`, in samples. The cooldown ends where the decay ends. Default (null): a tenth of
    the number of samples at which the decay ends."""
    cooldown_tokens: Positive | None = None
    """Length of the cooldown of `wsd`, in tokens. The cooldown ends where the decay ends. This key is only allowed with
    `decay_tokens`. Default (null): a tenth of `decay_tokens`."""
    momentum: Beta = 0.0
    """Momentum of SGD. This key is only allowed with `kind: sgd`."""
    beta1: Beta = 0.9
    """Decay rate of Adam's first moment, the running mean of the gradient."""
    beta2: Beta = 0.95
    """Decay rate of Adam's second moment, the running mean of the squared gradient."""
    epsilon: Annotated[float, Field(gt=0), NotBool] = 1e-8
    """Adam's epsilon, a small constant that is added to the denominator of the update."""
    weight_decay: Annotated[float, Field(ge=0), NotBool] = 0.1
    """Weight decay of matrices, decoupled from the gradient (for SGD: added to the gradient). Biases and LayerNorms do
    not decay."""
    gradient_clipping: Annotated[float, Field(ge=0), NotBool] = 1.0
    """Maximum L2 norm of the gradient of all parameters together. A gradient with a larger norm is scaled down to this
    norm. 0: no clipping."""


class ResolvedOptimizer(OptimizerConfig):
    """The optimizer's settings with a peak learning rate and a warm-up in samples or tokens, even if
    `training.batch_scaling` determines them. `bloomery.spec.batch_scaling` computes them."""

    learning_rate: Annotated[float, Field(gt=0), NotBool]
    """Peak learning rate."""


UNKNOWN_SAMPLES = 1
"""Value of `train_samples` in the files of stages if `train_epochs` is stated, because only the index knows the length.
`bloomery.contracts.train_stage` replaces it."""


class TrainingConfig(Section):
    """The training: length, layout, batches, optimizer, precision and the training loop."""

    train_samples: Annotated[Positive, Field(examples=[1000000])]
    """Total number of training samples. If the last batch is incomplete, it is dropped. Exactly one of `train_samples`
    and `train_epochs` must be stated."""
    train_epochs: Annotated[float, Field(gt=0, le=1e6, examples=[2]), NotBool] | None = None
    """Length of the training in epochs, instead of `train_samples`: number of training samples = `train_epochs` x
    training tokens of the index / `model.sequence_length`. The plan and the checks need an estimate of these tokens,
    `plan.corpus_tokens`. Default (null): `train_samples` is the length."""
    train_tokens: Positive | None = None
    """Training also ends with the first iteration that reaches this number of tokens (useful with a curriculum).
    Default (null): only `train_samples` ends the training."""
    parallel: ParallelConfig = ParallelConfig()
    """Layout of the training: the sizes of tensor, pipeline and data parallelism."""
    batch: BatchConfig
    """Sizes of the global batch and of the micro-batches."""
    batch_scaling: Annotated[
        BatchScalingConfig | None,
        Field(examples=[{"base_batch": 512, "base_learning_rate": 2.83e-3, "cap": 1.13e-2, "warmup_iterations": 1024}]),
    ] = None
    """Peak learning rate and warm-up that follow from the global batch size. Default (null):
    `training.optimizer.learning_rate` and the keys of the warm-up in `training.optimizer` apply."""
    curriculum: Annotated[
        CurriculumConfig | None, Field(examples=[{"start_length": 64, "length_step": 8, "samples": 1000000}])
    ] = None
    """Sequence-length curriculum. Default (null): samples always have their full length."""
    dropout: DropoutConfig = DropoutConfig()
    """Dropout. Default: none."""
    optimizer: OptimizerConfig
    """Optimizer and learning-rate schedule."""
    precision: Literal["bf16", "fp16", "fp32"] = "bf16"
    """Numeric precision. `bf16`, `fp16`: 16-bit weights with fp32 master weights; `fp16` also uses dynamic loss
    scaling. `fp32`: everything in float32."""
    loss_scale: LossScaleConfig = LossScaleConfig()
    """Settings of the loss scale. Only `precision: fp16` uses them."""
    gradient_accumulation: Literal["fp32", "same"] = "fp32"
    """Data type in which the gradients of micro-batches are summed: `fp32`, or the `same` type as the weights (rejected
    for bf16)."""
    zero_stage: Literal[0, 1, 2, 3] = 1
    """ZeRO stage. 1: the optimizer state is split over the replicas. 0 is treated like 1, which trains the same model
    with less memory. 2 and 3 are rejected, because the pipeline engine cannot split gradients."""
    activation_checkpointing: Literal["full", "selective", "none"] = "full"
    """Activations that the backward pass recomputes. `full`: each whole block. `selective`: everything except matrix
    products and attention. `none`: nothing."""
    partition: Annotated[str, Field(pattern="^(parameters|uniform|type:.+)$")] = "parameters"
    """Rule that distributes the layers over pipeline stages. `parameters`: similar numbers of parameters in all
    stages, including embedding and head. `uniform`: equal numbers of transformer blocks. `type:REGEX`: equal numbers of
    the layers whose kind (embedding, norm, transformer, head) matches the regular expression, such as
    `type:transformer|embedding`. A tied head also counts as an embedding."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """When checkpoints are saved, and which ones are kept."""
    validation: ValidationConfig = ValidationConfig()
    """Validation during the training."""
    segment: SegmentConfig = SegmentConfig()
    """Limits of the segments, into which the training is divided."""
    preflight: Annotated[PreflightConfig | None, Field(examples=[{"slow_ratio": 1.3, "exclude_hours": 72}])] = (
        PreflightConfig()
    )
    """Preflight, which checks all nodes at the start of each segment. null: only missing GPUs are noticed."""
    heartbeat: Annotated[HeartbeatConfig | None, Field(examples=[{"iterations": 5.0, "seconds": 120.0}])] = (
        HeartbeatConfig()
    )
    """Detection of hangs. null: a hang ends only when a collective has waited for 30 minutes."""
    guards: GuardsConfig = GuardsConfig()
    """Guards, which check the running training."""
    skip: Annotated[list[SkipRange], Field(examples=[[{"from_sample": 51200, "to_sample": 56320}]])] = []
    """Ranges of training samples that are skipped, in addition to the ranges that roll-backs skip."""
    kernels: KernelsConfig = KernelsConfig()
    """Implementations of the computations."""
    energy: Annotated[EnergyConfig | None, Field(examples=[{"country": "FRA"}])] = None
    """Measurement of energy and CO2. Default (null): nothing is measured."""
    on_change: Literal["refuse", "continue", "restart"] = "refuse"
    """Reaction to a model, data, layout or schedule that differs from that of the newest checkpoint. `refuse`: stop
    with an error that lists the differences and prints the YAML of the other two choices. `continue`: resume from the
    checkpoint if the resume policy of every changed key allows it (`bloomery train policy` prints this policy), and
    stop with an error otherwise. `restart`: move the old training to train/archive/ and start a new one at iteration
    0."""
    initial_checkpoint: Annotated[str, Field(min_length=1, examples=["imports/bloom-560m"])] | None = None
    """Checkpoint whose weights the training starts with: a folder that `bloomery import hf` wrote, or the folder of one
    checkpoint. The training starts at step 0 with an empty optimizer state. The checkpoint may have any layout. The
    keys of `model` and the tokenizer must be those of the checkpoint. Default (null): random initial weights."""
    threads_per_rank: Positive = 1
    """Number of CPU threads of each process of the training (OMP_NUM_THREADS)."""
    peak_tflops: Annotated[Annotated[float, Field(gt=0), NotBool] | None, Field(examples=[312])] = None
    """Peak speed of one device in TFLOP/s, from which the model FLOP utilisation (MFU) is computed (A100 in bf16: 312).
    Default (null): no MFU is computed."""

    @field_validator("optimizer", mode="before")
    @classmethod
    def _states_the_learning_rate(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse an optimizer without a learning rate if no section `batch_scaling` states it."""
        stated = value.get("learning_rate") if isinstance(value, dict) else getattr(value, "learning_rate", None)
        # An invalid section `batch_scaling` is absent from `info.data`. Only its own problems are reported.
        scaled = info.data.get("batch_scaling", "invalid") is not None
        if stated is not None or scaled or not isinstance(value, dict | OptimizerConfig):
            return value
        raise ValidationError.from_exception_data(
            cls.__name__, [InitErrorDetails(type="missing", loc=("learning_rate",), input=value)]
        )

    @field_validator("activation_checkpointing", mode="before")
    @classmethod
    def _as_in_0_1(cls, value: object) -> object:
        """Accept true and false, which version 0.1.0 wrote, as `full` and `none`, so that its runs remain readable."""
        return ("full" if value else "none") if isinstance(value, bool) else value
