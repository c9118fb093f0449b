"""Generate the DeepSpeed configuration from the run's YAML, so that the two cannot contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomery.spec.batch import micro_batch_size

if TYPE_CHECKING:
    from bloomery.config.training import TrainingConfig

EXPECTED_WRAPPER = {"bf16": "BF16_Optimizer", "fp16": "DeepSpeedZeroOptimizer", "fp32": "DeepSpeedZeroOptimizer"}
"""Optimizer class that `deepspeed.initialize` must build for each precision.

Training checks the class after the call, because DeepSpeed can silently build one that accumulates in bf16.
"""

REDUCE_BUCKET_ELEMENTS = 50_000_000
"""Number of gradient elements that ZeRO's own wrapper (fp16, fp32) reduces at a time.

DeepSpeed's default of 5e8 would take 2 GB.
"""


def accumulation_type(training: TrainingConfig) -> str:
    """Return the type in which micro-batches' gradients are summed and reduced over replicas: bf16, fp16 or fp32."""
    return "fp32" if training.gradient_accumulation == "fp32" else training.precision


def deepspeed_json(training: TrainingConfig) -> dict[str, Any]:
    """Return DeepSpeed's configuration for a training run.

    In bf16 DeepSpeed builds the optimizer that accumulates in fp32 only with ZeRO stage 1 and `grad_accum_dtype: fp32`.
    Stage 0 would silently accumulate in bf16 (DeepSpeed 0.19, runtime/engine.py). A configured stage 0 is therefore run
    as stage 1. The results of the training are the same, but the optimizer state is split over the replicas.

    `communication_data_type` is set because its default is the type of the weights. The fp32 sums would be rounded to
    that type when they are reduced over the replicas, even with a single replica.
    """
    batch, scale = training.batch, training.loss_scale
    replicated = not training.parallel.sequence_parallel
    accumulation = accumulation_type(training)
    return {
        # Between stages, each tensor-parallel rank sends its part of an activation that all ranks hold in full. With
        # sequence parallelism each rank holds a different part, so the next stage would assemble a mixture of them.
        "pipeline": {"pipe_partitioned": replicated, "grad_partitioned": replicated},
        "train_micro_batch_size_per_gpu": micro_batch_size(batch, batch.global_batch_size),
        "train_batch_size": batch.global_batch_size,
        "gradient_clipping": training.optimizer.gradient_clipping,
        "zero_optimization": {"stage": 1, "reduce_bucket_size": REDUCE_BUCKET_ELEMENTS},
        "bf16": {"enabled": training.precision == "bf16"},
        "fp16": {
            "enabled": training.precision == "fp16",
            # 0 means dynamic loss scaling.
            "loss_scale": 0,
            "initial_scale_power": scale.initial_power,
            "loss_scale_window": scale.window_iterations,
            "hysteresis": scale.hysteresis,
            "min_loss_scale": scale.minimum,
        },
        "data_types": {"grad_accum_dtype": accumulation},
        "communication_data_type": accumulation,
        # DeepSpeed's list of tested optimizers lacks SGD and our LAMB. SGD updates each element alone, so it works on a
        # flat shard. LAMB knows which parameters are in the shard.
        "zero_allow_untested_optimizer": training.optimizer.kind in ("sgd", "lamb"),
        # The replicas of a stage share the work of writing its layers.
        "checkpoint": {"parallel_write": {"pipeline_stage": True}},
        "steps_per_print": 1_000_000_000,
        "wall_clock_breakdown": False,
    }
