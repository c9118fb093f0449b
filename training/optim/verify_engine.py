"""What `deepspeed.initialize` promised, checked after it.

For some configurations DeepSpeed builds something else, with a warning at most, and training would go on with other
numbers.
"""

from __future__ import annotations

from typing import Any

import torch

from bloomery.base.errors import CheckFailedError
from bloomery.config.training import TrainingConfig
from bloomery.spec.deepspeed_json import EXPECTED_WRAPPER, accumulation_type
from training.optim.builder import Groups

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
"""torch's type for each precision of the configuration."""


def verify_engine(engine: Any, training: TrainingConfig, groups: Groups, built: type[torch.optim.Optimizer]) -> None:
    """Compare the engine with the configuration.

    Args:
        engine: just initialized, before its first step.
        training: the configuration it was built for.
        groups: parameters that were handed over, as `parameter_groups` made them.
        built: class of the base optimizer that was handed over.

    Raises:
        CheckFailedError: it is another optimizer, sums gradients in another type, leaves out parameters, keeps master
            weights in less than fp32, or does not split its state over the replicas.
    """
    wrapper, weights = engine.optimizer, TYPES[training.precision]
    _same("optimizer wrapper", type(wrapper).__name__, EXPECTED_WRAPPER[training.precision])
    _same("base optimizer", type(wrapper.optimizer), built)
    _same("ZeRO stage", engine.zero_optimization_stage(), 1)
    _same("gradient clipping", engine.gradient_clipping(), training.optimizer.gradient_clipping)
    accumulation = TYPES[accumulation_type(training)]
    _same("type that gradients are summed in", _accumulation(wrapper), accumulation)
    _same("type that gradients are reduced in", engine.communication_data_type, accumulation)
    _same("weights not of the promised type", [p.dtype for p in engine.module.parameters() if p.dtype != weights], [])
    if training.precision == "fp16":
        scaler, scale = wrapper.loss_scaler, training.loss_scale
        _same("dynamic loss scale", scaler.dynamic, True)
        _same("first loss scale", scaler.cur_scale, 2.0**scale.initial_power)
        _same("least loss scale", scaler.min_scale, scale.minimum)
    _check_groups(wrapper, groups)


def _accumulation(wrapper: Any) -> torch.dtype:
    """BF16_Optimizer has its buffers from the start, ZeRO's own wrapper only the intention."""
    if type(wrapper).__name__ != "BF16_Optimizer":
        promised: torch.dtype = wrapper.gradient_accumulation_dtype
        return promised
    kept: torch.dtype = wrapper.fp32_groups_gradients_flat[0].dtype
    return kept


def _check_groups(wrapper: Any, groups: Groups) -> None:
    """Each group is one flat fp32 partition now, 1 / replicas of its parameters and a filler at the end."""
    bf16 = type(wrapper).__name__ == "BF16_Optimizer"
    members = wrapper.bf16_groups if bf16 else wrapper.bit16_groups
    masters = wrapper.fp32_groups_flat_partition if bf16 else wrapper.single_partition_of_fp32_groups
    _same("number of groups", (len(members), len(masters), len(wrapper.param_groups)), (len(groups),) * 3)
    for number, (promised, member, master) in enumerate(zip(groups, members, masters, strict=True)):
        name = f"group {number}: "
        _same(f"{name}weight decay", wrapper.param_groups[number]["weight_decay"], promised["weight_decay"])
        _same(f"{name}number of parameters", len(member), len(promised["params"]))
        foreign = {id(parameter) for parameter in member} - {id(parameter) for parameter in promised["params"]}
        _same(f"{name}parameters that were not handed over", len(foreign), 0)
        _same(f"{name}type of master weights", master.dtype, torch.float32)
        elements, replicas = sum(p.numel() for p in member), wrapper.partition_count[number]
        # DeepSpeed fills up to 2 elements for each replica, for the alignment of the gather.
        aligned = -(-elements // (2 * replicas)) * 2
        _same(f"{name}elements of this replica's partition", master.numel(), aligned)


def _same(what: str, found: object, promised: object) -> None:
    if found != promised:
        raise CheckFailedError(f"{what}: {found}", where="deepspeed.initialize", expected=str(promised))
