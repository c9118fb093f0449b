"""Build the optimizer from the declared parameters. Weight decay applies to matrices, not to biases and LayerNorms."""

from __future__ import annotations

from typing import Any

import torch

from bloomery.config.model import ModelConfig
from bloomery.config.training import OptimizerConfig, ResolvedOptimizer
from bloomery.spec.groups import optimizer_groups
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Parameter
from training.model.pipeline import BloomPipeline
from training.optim.apex_lamb import ApexLamb
from training.optim.lamb import Lamb
from training.optim.segment_map import SegmentMap

Groups = list[dict[str, Any]]
"""Parameter groups in the format of torch optimizers, with the keys `params` and `weight_decay`."""


def parameter_groups(
    network: BloomPipeline, optimizer: OptimizerConfig, model: ModelConfig, vocabulary_rows: int
) -> Groups:
    """Return this stage's parameter groups, in the order of `bloomery.spec.groups`.

    Parameters with weight decay come first, and parameters without it second.
    """
    modules = network.local_modules()
    here = [
        parameter
        for parameter in declare(model, vocabulary_rows)
        if any(layer in modules for layer in (parameter.layer, *parameter.tied_layers))
    ]

    def tensor(parameter: Parameter) -> torch.nn.Parameter:
        layer = next(layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules)
        return modules[layer].get_parameter(parameter.local_name)

    return [
        {
            "params": [tensor(parameter) for parameter in members],
            "weight_decay": optimizer.weight_decay if members[0].decays else 0.0,
        }
        for members in optimizer_groups(here)
    ]


def build_optimizer(
    groups: Groups, optimizer: ResolvedOptimizer, kernel: str, where: SegmentMap | None = None
) -> torch.optim.Optimizer:
    """Build the configured optimizer over `groups`.

    Args:
        groups: parameter groups from `parameter_groups`.
        optimizer: configuration of the optimizer.
        kernel: implementation that `bloomery.spec.choose_kernels` chose.
        where: segments of this rank's part of the optimizer state, which LAMB needs.
    """
    if optimizer.kind == "lamb":
        assert where is not None
        return ApexLamb(groups, optimizer, where) if kernel == "apex" else Lamb(groups, optimizer, where)
    return _adam(groups, optimizer, kernel) if optimizer.kind == "adam" else _sgd(groups, optimizer, kernel)


def _adam(groups: Groups, optimizer: ResolvedOptimizer, kernel: str) -> torch.optim.Optimizer:
    """Build AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101). Its weight decay does not enter the moments."""
    betas = (optimizer.beta1, optimizer.beta2)
    if kernel == "apex":
        from apex.optimizers import FusedAdam

        fused: torch.optim.Optimizer = FusedAdam(
            groups, lr=optimizer.learning_rate, betas=betas, eps=optimizer.epsilon, adam_w_mode=True
        )
        return fused
    return torch.optim.AdamW(
        groups, lr=optimizer.learning_rate, betas=betas, eps=optimizer.epsilon, fused=kernel == "fused"
    )


def _sgd(groups: Groups, optimizer: ResolvedOptimizer, kernel: str) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=optimizer.learning_rate, momentum=optimizer.momentum, fused=kernel == "fused")


def set_step_count(optimizer: torch.optim.Optimizer, updates: int) -> None:
    """Set the step count of Adam or LAMB, whose moments must exist, to `updates`.

    apex stores the count per group and torch stores it per parameter. This function sets both, so that a checkpoint of
    either implementation loads into the other.
    """
    for group in optimizer.param_groups:
        if _is_apex(optimizer):
            group["step"] = updates
            continue
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if "exp_avg" in state:
                state["step"] = torch.tensor(float(updates), device=_step_device(group, parameter))


def _is_apex(optimizer: torch.optim.Optimizer) -> bool:
    return type(optimizer).__module__.startswith("apex.")


def _step_device(group: dict[str, Any], parameter: torch.Tensor) -> torch.device:
    """Return the device of the step count: the parameter's for torch's fused Adam, and the CPU otherwise."""
    return parameter.device if group.get("fused") or group.get("capturable") else torch.device("cpu")
