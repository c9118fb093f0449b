"""Draw initial weights. Each parameter is drawn as a whole, seeded by its name, and then sliced for this rank.

So the initial weights do not depend on the layout.
"""

from __future__ import annotations

import math

import torch

from bloomery.base.digest import seed_for
from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Initializer, Parameter
from training.model.pipeline import BloomPipeline
from training.parallel.mesh import Mesh


def draw(parameter: Parameter, model: ModelConfig, seed: int) -> torch.Tensor:
    """Return the initial values of the whole parameter, fp32 on the CPU."""
    if parameter.initializer is Initializer.ONES:
        return torch.ones(parameter.shape)
    if parameter.initializer is Initializer.ZEROS:
        return torch.zeros(parameter.shape)
    std = model.standard_deviation
    if parameter.initializer is Initializer.OUTPUT_NORMAL:
        std /= math.sqrt(2.0 * model.layers)
    generator = torch.Generator().manual_seed(seed_for(seed, parameter.name))
    return torch.empty(parameter.shape).normal_(0.0, std, generator=generator)


@torch.no_grad()
def initialize(network: BloomPipeline, mesh: Mesh, model: ModelConfig, vocabulary_rows: int, seed: int) -> None:
    """Set the initial values of every parameter of this stage. Every parameter must be declared
    (`bloomery.spec.parameters.declare`)."""
    modules = network.local_modules()
    filled: set[int] = set()
    for parameter in declare(model, vocabulary_rows):
        owners = [layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules]
        if not owners:
            continue
        target = modules[owners[0]].get_parameter(parameter.local_name)
        whole = draw(parameter, model, seed)
        target.copy_(whole[parameter.shard_slices(mesh.tensor_rank, mesh.tensor_size)])
        filled.add(id(target))
    left = [name for name, value in network.named_parameters() if id(value) not in filled]
    assert not left, f"parameters of the network that are not declared in bloomery/spec: {left}"
