"""The network against transformers' BLOOM and torch's own cross-entropy, on one process."""

from __future__ import annotations

import pytest
import torch

from bloomery.config.stages import TrainStage


def _stage(heads: int) -> TrainStage:
    from fabricated_training import stage

    base = stage(precision="fp32").model_dump(mode="json")
    base["model"] |= {"heads": heads, "hidden_size": 12 * heads, "layers": 3}
    return TrainStage.model_validate(base)


@pytest.mark.parametrize("heads", [4, 6, 7])
def test_logits_equal_transformers_bloom(mesh, heads):
    """Also for head counts that are no power of two, whose ALiBi slopes are interleaved."""
    from transformers import BloomConfig, BloomForCausalLM

    from bloomery.plan.parameters import declare
    from training.model.initialize import draw, initialize
    from training.model.pipeline import BloomPipeline

    stage, rows = _stage(heads), 256
    network = BloomPipeline(mesh, stage.model, stage.training, rows)
    initialize(network, mesh, stage.model, rows, seed=3)
    config = BloomConfig(
        vocab_size=rows, hidden_size=stage.model.hidden_size, n_layer=3, n_head=heads, layer_norm_epsilon=1e-5
    )
    theirs = BloomForCausalLM(config).eval()
    weights = {f"transformer.{p.name}": draw(p, stage.model, 3) for p in declare(stage.model, rows)}
    missing = theirs.load_state_dict(weights | {"lm_head.weight": weights["transformer.word_embeddings.weight"]})
    assert not missing.missing_keys
    tokens = torch.randint(0, rows, (2, 24), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        x = tokens
        for function in network.forward_funcs:
            x = function(x)
        expected = theirs(tokens).logits
    torch.testing.assert_close(x, expected, rtol=1e-5, atol=1e-5)


def test_initial_weights_depend_on_their_names_alone(mesh):
    from bloomery.plan.parameters import declare
    from training.model.initialize import draw

    stage = _stage(4)
    for parameter in declare(stage.model, 256):
        whole = draw(parameter, stage.model, 5)
        assert torch.equal(whole, draw(parameter, stage.model, 5))
        halves = [whole[parameter.shard_slices(rank, 2)] for rank in range(2)]
        dimension = parameter.placement.dimension
        rebuilt = halves[0] if dimension is None else torch.cat(halves, dim=dimension)
        assert torch.equal(rebuilt, whole)


def test_cross_entropy_and_its_gradient_equal_torch(mesh):
    from training.parallel.cross_entropy import vocabulary_parallel_cross_entropy

    logits = torch.randn(2, 5, 50, generator=torch.Generator().manual_seed(1)) * 4
    labels = torch.randint(0, 50, (2, 5), generator=torch.Generator().manual_seed(2))
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = vocabulary_parallel_cross_entropy(ours, labels, 0, mesh.tensor_group)
    expected = torch.nn.functional.cross_entropy(theirs.view(-1, 50), labels.view(-1))
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_micro_batches_cover_the_global_batch_whatever_the_layout():
    import numpy as np

    from training.data.batches import micro_batches

    def read(sample: int) -> np.ndarray:
        return np.full(5, sample, dtype=np.int64)

    for micro, data in ((1, 1), (2, 1), (2, 2), (1, 4)):
        seen = [
            int(row[0])
            for rank in range(data)
            for inputs, _ in micro_batches(read, 100, 8, micro, rank, data)
            for row in inputs
        ]
        assert sorted(seen) == list(range(100, 108))
