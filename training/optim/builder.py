"""The optimizer, from the declared parameters: matrices decay, biases and LayerNorms do not."""

from __future__ import annotations

import torch

from bloomery.config.model import ModelConfig
from bloomery.config.training import OptimizerConfig
from bloomery.plan.parameters import declare
from training.model.pipeline import BloomPipeline


def build_optimizer(
    network: BloomPipeline, optimizer: OptimizerConfig, model: ModelConfig, vocabulary_rows: int
) -> torch.optim.Optimizer:
    """AdamW over this stage's parameters, in declaration order, in two groups."""
    modules = network.local_modules()
    groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
    for parameter in declare(model, vocabulary_rows):
        owners = [layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules]
        if owners:
            groups[parameter.decays].append(modules[owners[0]].get_parameter(parameter.local_name))
    return torch.optim.AdamW(
        [
            {"params": members, "weight_decay": optimizer.weight_decay if decays else 0.0}
            for decays, members in groups.items()
            if members
        ],
        lr=optimizer.learning_rate,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.epsilon,
    )
