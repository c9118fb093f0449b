"""Test that a network split over tensor-parallel ranks computes the same function, also with sequence parallelism."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fabricated_training import stage
from ranks import run_ranks

from bloomery.config.stages import TrainStage

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ROWS, BATCH, LENGTH = 256, 2, 32
SHAPES: dict[str, dict[str, Any]] = {
    "bloom": {},
    "llama-like": {
        "positions": "rotary",
        "activation": "swiglu",
        "tied_embeddings": False,
        "embedding_layernorm": False,
    },
    "learned": {"positions": "learned", "tied_embeddings": False, "stable_attention": False},
    "gpt-2-like": {"positions": "learned", "embedding_layernorm": False},
}


def shaped(changes: dict[str, Any], **parallel: Any) -> TrainStage:
    raw = stage(precision="fp32").model_dump(mode="json")
    raw["model"] |= {"heads": 4, "hidden_size": 48, "layers": 2, **changes}
    raw["training"]["parallel"] |= parallel
    return TrainStage.model_validate(raw)


def step(mesh: Any, run: TrainStage) -> tuple[float, dict[str, torch.Tensor]]:
    """Return the loss and this rank's gradients by name, with a few ignored labels."""
    from bloomery.spec.parameters import declare
    from training.model.initialize import initialize
    from training.model.pipeline import BloomPipeline

    network = BloomPipeline(mesh, run.model, run.training, ROWS)
    initialize(network, mesh, run.model, ROWS, seed=3)
    # Biases start at 0 and LayerNorm weights at 1, which would hide wrong uses of them, so change them.
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 if not hasattr(parameter, "model_parallel") else 0.05
    tokens = torch.randint(0, ROWS, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    labels = tokens[:, 1:].clone()
    labels[1, -5:] = -1
    x = tokens[:, :-1]
    for layer, function in enumerate(network.forward_funcs):
        x = function(x)
        if layer == 2:
            assert tuple(x.shape) == network.boundary_shape(BATCH, LENGTH)
    loss = network.loss_fn(x, labels)
    loss.backward()
    modules = network.local_modules()
    found = {p.name: modules[p.layer].get_parameter(p.local_name).grad for p in declare(run.model, ROWS)}
    return loss.item(), {name: grad.clone() for name, grad in found.items() if grad is not None}


def steps(tensor: int) -> dict[tuple[str, bool], tuple[float, dict[str, torch.Tensor]]]:
    """Run every shape on this rank, with and without sequence parallelism."""
    from dataclasses import replace

    from training.parallel.collectives import waited
    from training.parallel.mesh import build_mesh

    found = {}
    mesh = build_mesh(shaped({}, tensor=tensor).training.parallel)
    for name, changes in SHAPES.items():
        for sequence in (False, True) if tensor > 1 else (False,):
            run = shaped(changes, tensor=tensor, sequence_parallel=sequence)
            found[name, sequence] = step(replace(mesh, parallel=run.training.parallel), run)
    assert (waited.take() > 0.0) == (tensor > 1)
    assert waited.take() == 0.0
    return found


def test_loss_and_every_gradient_equal_the_unsplit_ones() -> None:
    """The whole network and its halves run in separate processes."""
    from bloomery.spec.parameters import declare
    from bloomery.spec.placement import Placement

    (whole,), ranks = run_ranks(steps, 1, 1), run_ranks(steps, 2, 2)
    for (name, sequence), (loss, _) in ranks[0].items():
        expected_loss, expected = whole[name, False]
        assert loss == pytest.approx(expected_loss, rel=1e-6)
        for parameter in declare(shaped(SHAPES[name]).model, ROWS):
            parts = [rank[name, sequence][1][parameter.name] for rank in ranks]
            if parameter.placement is Placement.REPLICATED:
                assert all(torch.equal(part, parts[0]) for part in parts), (name, sequence, parameter.name)
                found = parts[0]
            else:
                found = torch.cat(parts, dim=parameter.placement.dimension)
            right = expected[parameter.name]
            # The gradient of a key's bias is zero except for rounding, so the tolerance has an absolute minimum.
            assert (found - right).norm() <= 2e-6 * max(1e-2, float(right.norm())), (name, sequence, parameter.name)
