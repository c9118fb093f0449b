"""The DeepSpeed configuration, generated: it is never written by hand, so it cannot contradict the run's YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomery.spec.batch import micro_batch_size

if TYPE_CHECKING:
    from bloomery.config.training import TrainingConfig

EXPECTED_WRAPPER = {"bf16": "BF16_Optimizer", "fp16": "DeepSpeedZeroOptimizer", "fp32": "DeepSpeedZeroOptimizer"}
"""Class that `deepspeed.initialize` must build for each precision (checked after it; facts: DeepSpeed can build a
bf16-accumulating one without an error)."""

REDUCE_BUCKET_ELEMENTS = 50_000_000
"""Gradients that ZeRO's own wrapper (fp16, fp32) reduces at a time: DeepSpeed's default of 5e8 would hold 2 GB."""


def accumulation_type(training: TrainingConfig) -> str:
    """Type in which the gradients of micro-batches are summed and reduced over the replicas: bf16, fp16 or fp32."""
    return "fp32" if training.gradient_accumulation == "fp32" else training.precision


def deepspeed_json(training: TrainingConfig) -> dict[str, Any]:
    """DeepSpeed's configuration for a training run.

    bf16 needs ZeRO stage 1 and `grad_accum_dtype: fp32` to get the optimizer that accumulates in fp32; stage 0 would
    silently accumulate in bf16 (DeepSpeed runtime/engine.py, 0.19). So a configured stage 0 is run as 1: the numbers
    are the same, the state is split. `communication_data_type` would by default be the weights' type, to which the
    sums in fp32 would be rounded on their way over the replicas, also where there is only one.
    """
    batch, scale = training.batch, training.loss_scale
    replicated = not training.parallel.sequence_parallel
    accumulation = accumulation_type(training)
    return {
        # Between stages each tensor rank sends its part of what all of them hold; with sequence parallelism each holds
        # its own, and the next stage would put a mixture together.
        "pipeline": {"pipe_partitioned": replicated, "grad_partitioned": replicated},
        "train_micro_batch_size_per_gpu": micro_batch_size(batch, batch.global_batch_size),
        "train_batch_size": batch.global_batch_size,
        "gradient_clipping": training.optimizer.gradient_clipping,
        "zero_optimization": {"stage": 1, "reduce_bucket_size": REDUCE_BUCKET_ELEMENTS},
        "bf16": {"enabled": training.precision == "bf16"},
        "fp16": {
            "enabled": training.precision == "fp16",
            # 0: dynamic.
            "loss_scale": 0,
            "initial_scale_power": scale.initial_power,
            "loss_scale_window": scale.window_iterations,
            "hysteresis": scale.hysteresis,
            "min_loss_scale": scale.minimum,
        },
        "data_types": {"grad_accum_dtype": accumulation},
        "communication_data_type": accumulation,
        # SGD is missing in DeepSpeed's list; it works on each element alone, so that a flat shard is as good.
        "zero_allow_untested_optimizer": training.optimizer.kind == "sgd",
        # The replicas of a stage share the writing of its layers.
        "checkpoint": {"parallel_write": {"pipeline_stage": True}},
        "steps_per_print": 1_000_000_000,
        "wall_clock_breakdown": False,
    }
