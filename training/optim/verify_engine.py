"""Check that `deepspeed.initialize` built the configured engine.

For some configurations DeepSpeed builds a different engine, with at most a warning. Training would then continue with
different numerics.
"""

from __future__ import annotations

from typing import Any

import torch

from bloomery.base.errors import CheckFailedError
from bloomery.config.training import TrainingConfig
from bloomery.spec.deepspeed_json import EXPECTED_WRAPPER, accumulation_type
from training.optim.builder import Groups

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
"""torch data type of each precision in the configuration."""


def verify_engine(engine: Any, training: TrainingConfig, groups: Groups, built: type[torch.optim.Optimizer]) -> None:
    """Compare the engine with the configuration.

    Args:
        engine: DeepSpeed engine before its first step.
        training: configuration that the engine was built for.
        groups: parameter groups that were passed to DeepSpeed (from `parameter_groups`).
        built: class of the base optimizer that was passed to DeepSpeed.

    Raises:
        CheckFailedError: the engine differs from the configuration. For example, it has a different optimizer or fewer
            parameters, sums gradients in a different type, has master weights that are not fp32, or does not split its
            state over the replicas.
    """
    wrapper, weights = engine.optimizer, TYPES[training.precision]
    _same("optimizer wrapper", type(wrapper).__name__, EXPECTED_WRAPPER[training.precision])
    _same("base optimizer", type(wrapper.optimizer), built)
    _same("ZeRO stage", engine.zero_optimization_stage(), 1)
    _same("gradient clipping", engine.gradient_clipping(), training.optimizer.gradient_clipping)
    accumulation = TYPES[accumulation_type(training)]
    _same("gradient accumulation type", _accumulation(wrapper), accumulation)
    _same("gradient communication type", engine.communication_data_type, accumulation)
    _same(
        f"data types of weights that differ from {weights}",
        [p.dtype for p in engine.module.parameters() if p.dtype != weights],
        [],
    )
    if training.precision == "fp16":
        scaler, scale = wrapper.loss_scaler, training.loss_scale
        _same("dynamic loss scale", scaler.dynamic, True)
        _same("initial loss scale", scaler.cur_scale, 2.0**scale.initial_power)
        _same("minimum loss scale", scaler.min_scale, scale.minimum)
    _check_groups(wrapper, groups)


def _accumulation(wrapper: Any) -> torch.dtype:
    """Return the type in which gradients are accumulated.

    BF16_Optimizer already has its gradient buffers. ZeRO's wrapper creates them later and has only the setting.
    """
    if type(wrapper).__name__ != "BF16_Optimizer":
        promised: torch.dtype = wrapper.gradient_accumulation_dtype
        return promised
    kept: torch.dtype = wrapper.fp32_groups_gradients_flat[0].dtype
    return kept


def _check_groups(wrapper: Any, groups: Groups) -> None:
    """Compare the wrapper's parameter groups with `groups`.

    Each replica holds one flat fp32 partition per group: an equal share of the group's elements, including padding.
    """
    bf16 = type(wrapper).__name__ == "BF16_Optimizer"
    members = wrapper.bf16_groups if bf16 else wrapper.bit16_groups
    masters = wrapper.fp32_groups_flat_partition if bf16 else wrapper.single_partition_of_fp32_groups
    _same("number of parameter groups", (len(members), len(masters), len(wrapper.param_groups)), (len(groups),) * 3)
    for number, (promised, member, master) in enumerate(zip(groups, members, masters, strict=True)):
        name = f"parameter group {number}: "
        _same(f"{name}weight decay", wrapper.param_groups[number]["weight_decay"], promised["weight_decay"])
        _same(f"{name}number of parameters", len(member), len(promised["params"]))
        foreign = {id(parameter) for parameter in member} - {id(parameter) for parameter in promised["params"]}
        _same(f"{name}number of parameters that were not passed to DeepSpeed", len(foreign), 0)
        _same(f"{name}data type of master weights", master.dtype, torch.float32)
        elements, replicas = sum(p.numel() for p in member), wrapper.partition_count[number]
        # DeepSpeed pads a group to a multiple of 2 elements per replica, to align the all-gather.
        aligned = -(-elements // (2 * replicas)) * 2
        _same(f"{name}number of master weights in this replica's share", master.numel(), aligned)


def _same(what: str, found: object, promised: object) -> None:
    """Raise CheckFailedError if `found` differs from `promised`."""
    if found != promised:
        raise CheckFailedError(
            f"DeepSpeed's engine differs from the configuration; {what}: {found}",
            where="deepspeed.initialize",
            expected=f"{promised}; install the DeepSpeed version of requirements.lock, and report an error of Bloomery "
            "if the difference remains",
        )
