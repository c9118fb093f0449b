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


@pytest.mark.parametrize("chunk", [1 << 22, 1000, 150])
def test_initial_weights_do_not_depend_on_the_layout(mesh, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    from bloomery.spec.parameters import declare
    from training.model import initialize

    stage = _stage(4)
    drawn: list[int] = []
    normal_numbers = initialize.normal_numbers

    def counted(key, starts, length, deviation):
        drawn.append(len(starts) * length)
        return normal_numbers(key, starts, length, deviation)

    monkeypatch.setattr(initialize, "normal_numbers", counted)
    for parameter in declare(stage.model, 256):
        monkeypatch.setattr(initialize, "_CHUNK", 1 << 22)
        whole = initialize.draw(parameter, stage.model, 5)
        monkeypatch.setattr(initialize, "_CHUNK", chunk)
        for size in (1, 2, 4):
            for rank in range(size):
                drawn.clear()
                shard = initialize.draw(parameter, stage.model, 5, rank, size)
                assert torch.equal(shard, whole[parameter.shard_slices(rank, size)]), parameter.name
                # A rank draws the elements of its shard and no others, at most a chunk at a time.
                assert sum(drawn) == (0 if len(parameter.shape) == 1 else shard.numel())
                assert max(drawn, default=0) <= chunk


def test_parameters_and_seeds_have_different_initial_weights(mesh) -> None:
    from bloomery.spec.parameters import declare
    from training.model.initialize import draw

    model = _stage(4).model
    matrices = [p for p in declare(model, 256) if len(p.shape) == 2]
    first = [draw(parameter, model, seed).flatten()[:100].tolist() for parameter in matrices for seed in (5, 6)]
    assert len({tuple(numbers) for numbers in first}) == 2 * len(matrices)


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
