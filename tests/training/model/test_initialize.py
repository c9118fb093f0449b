"""Test the initial weights."""

from __future__ import annotations

import pytest
import torch

from bloomery.config.stages import TrainStage


def _stage(heads: int, stable: bool = True) -> TrainStage:
    from fabricated_training import stage

    base = stage(precision="fp32").model_dump(mode="json")
    base["model"] |= {"heads": heads, "hidden_size": 12 * heads, "layers": 3, "stable_attention": stable}
    return TrainStage.model_validate(base)


def test_initial_weights_do_not_depend_on_the_layout(mesh):
    from bloomery.spec.parameters import declare
    from training.model.initialize import draw

    stage = _stage(4)
    for parameter in declare(stage.model, 256):
        whole = draw(parameter, stage.model, 5)
        assert torch.equal(whole, draw(parameter, stage.model, 5))
        halves = [whole[parameter.shard_slices(rank, 2)] for rank in range(2)]
        dimension = parameter.placement.dimension
        rebuilt = halves[0] if dimension is None else torch.cat(halves, dim=dimension)
        assert torch.equal(rebuilt, whole)


def test_initial_weights_have_the_standard_deviation_of_their_kind(mesh):
    """BLOOM's standard deviation is sqrt(1 / (3 hidden)).

    For matrices that write to the residual stream, it is divided by sqrt(2 layers).
    """
    from bloomery.spec.parameters import declare
    from training.model.initialize import draw

    model = _stage(4).model
    std = (3 * model.hidden_size) ** -0.5
    outputs = ("self_attention.dense.weight", "mlp.dense_4h_to_h.weight")
    for parameter in declare(model, 256):
        whole = draw(parameter, model, 5)
        if whole.dim() == 1:
            # LayerNorm weights start at 1. Every other vector is a bias and starts at 0.
            assert (whole == float(parameter.name.endswith("weight"))).all(), parameter.name
            continue
        expected = std / (2 * model.layers) ** 0.5 if parameter.name.endswith(outputs) else std
        # The standard deviation of n numbers has a relative error of 1 / sqrt(2 n), which is 1.5 % for the smallest
        # matrix.
        assert float(whole.std()) == pytest.approx(expected, rel=0.06), parameter.name
        assert abs(float(whole.mean())) < 0.1 * expected
