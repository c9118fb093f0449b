"""Test the DeepSpeed configuration that is generated for a training."""

from __future__ import annotations

from bloomery.config.training import BatchConfig, OptimizerConfig, TrainingConfig
from bloomery.spec.deepspeed_json import deepspeed_json


def test_deepspeed_json_sets_fp32_gradient_accumulation() -> None:
    training = TrainingConfig(
        train_samples=100,
        batch=BatchConfig(global_batch_size=8, micro_batch_size=2),
        optimizer=OptimizerConfig(learning_rate=1e-3),
    )
    value = deepspeed_json(training)
    assert value["bf16"] == {"enabled": True}
    assert value["zero_optimization"]["stage"] == 1
    assert value["data_types"]["grad_accum_dtype"] == "fp32"
    assert (value["train_batch_size"], value["train_micro_batch_size_per_gpu"]) == (8, 2)
