"""The DeepSpeed configuration, generated: it is never written by hand, so it cannot contradict the run's YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bloomery.config.training import TrainingConfig

EXPECTED_WRAPPER = {"bf16": "BF16_Optimizer", "fp32": "DeepSpeedZeroOptimizer"}
"""Class that `deepspeed.initialize` must build for each precision (checked after it; facts: DeepSpeed can build a
bf16-accumulating one without an error)."""


def deepspeed_json(training: TrainingConfig) -> dict[str, Any]:
    """DeepSpeed's configuration for a training run.

    bf16 needs ZeRO stage 1 and `grad_accum_dtype: fp32` to get the optimizer that accumulates in fp32; stage 0 would
    silently accumulate in bf16 (DeepSpeed runtime/engine.py, 0.19). So a configured stage 0 is run as 1: the numbers
    are the same, the state is split.
    """
    batch = training.batch
    return {
        "train_micro_batch_size_per_gpu": batch.micro_batch_size,
        "train_batch_size": batch.global_batch_size,
        "gradient_clipping": training.optimizer.gradient_clipping,
        "zero_optimization": {"stage": 1},
        "bf16": {"enabled": training.precision == "bf16"},
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_allow_untested_optimizer": False,
        "steps_per_print": 1_000_000_000,
        "wall_clock_breakdown": False,
    }
