"""Compare the network with transformers' BLOOM on one process."""

from __future__ import annotations

import pytest
import torch

from bloomery.config.stages import TrainStage


def _stage(heads: int, stable: bool = True) -> TrainStage:
    from fabricated_training import stage

    base = stage(precision="fp32").model_dump(mode="json")
    base["model"] |= {"heads": heads, "hidden_size": 12 * heads, "layers": 3, "stable_attention": stable}
    return TrainStage.model_validate(base)


@pytest.mark.parametrize(("heads", "stable"), [(4, True), (6, False), (7, True)])
def test_logits_and_gradients_equal_transformers_bloom(mesh, heads, stable):
    """Some cases have a number of heads that is not a power of two, so their ALiBi slopes are interleaved."""
    from transformers import BloomConfig, BloomForCausalLM

    from bloomery.spec.parameters import declare
    from training.model.initialize import draw, initialize
    from training.model.pipeline import BloomPipeline

    stage, rows = _stage(heads, stable), 256
    network = BloomPipeline(mesh, stage.model, stage.training, rows)
    initialize(network, mesh, stage.model, rows, seed=3)
    config = BloomConfig(
        vocab_size=rows, hidden_size=stage.model.hidden_size, n_layer=3, n_head=heads, layer_norm_epsilon=1e-5
    )
    theirs = BloomForCausalLM(config).eval()
    declared = declare(stage.model, rows)
    weights = {f"transformer.{p.name}": draw(p, stage.model, 3) for p in declared}
    missing = theirs.load_state_dict(weights | {"lm_head.weight": weights["transformer.word_embeddings.weight"]})
    assert not missing.missing_keys
    tokens = torch.randint(0, rows, (2, 25), generator=torch.Generator().manual_seed(0))
    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    x = inputs
    for function in network.forward_funcs:
        x = function(x)
    expected = theirs(inputs).logits
    torch.testing.assert_close(x, expected, rtol=1e-5, atol=1e-5)
    loss = network.loss_fn(x, labels)
    expected_loss = torch.nn.functional.cross_entropy(expected.view(-1, rows), labels.reshape(-1))
    torch.testing.assert_close(loss, expected_loss, rtol=1e-6, atol=0.0)
    loss.backward()
    expected_loss.backward()
    modules = network.local_modules()
    for parameter in declared:
        ours = modules[parameter.layer].get_parameter(parameter.local_name).grad
        right = theirs.get_parameter(f"transformer.{parameter.name}").grad
        assert (ours - right).norm() <= 1e-5 * max(1e-3, float(right.norm())), parameter.name
