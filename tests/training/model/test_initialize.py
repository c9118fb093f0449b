"""Initial weights."""

from __future__ import annotations

import pytest
import torch

from bloomery.config.stages import TrainStage


def _stage(heads: int, stable: bool = True) -> TrainStage:
    from fabricated_training import stage

    base = stage(precision="fp32").model_dump(mode="json")
    base["model"] |= {"heads": heads, "hidden_size": 12 * heads, "layers": 3, "stable_attention": stable}
    return TrainStage.model_validate(base)


def test_initial_weights_depend_on_their_names_alone(mesh):
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


def test_initial_weights_have_the_spread_of_their_kind(mesh):
    """BLOOM's rule sqrt(1 / (3 hidden)); what writes to the residual stream has it over sqrt(2 layers)."""
    from bloomery.spec.parameters import declare
    from training.model.initialize import draw

    model = _stage(4).model
    std = (3 * model.hidden_size) ** -0.5
    outputs = ("self_attention.dense.weight", "mlp.dense_4h_to_h.weight")
    for parameter in declare(model, 256):
        whole = draw(parameter, model, 5)
        if whole.dim() == 1:
            # Of LayerNorms the weights; every other vector is a bias.
            assert (whole == float(parameter.name.endswith("weight"))).all(), parameter.name
            continue
        expected = std / (2 * model.layers) ** 0.5 if parameter.name.endswith(outputs) else std
        # Of n numbers the deviation is known to 1 / sqrt(2 n): 1.5 % of the smallest matrix.
        assert float(whole.std()) == pytest.approx(expected, rel=0.06), parameter.name
        assert abs(float(whole.mean())) < 0.1 * expected
