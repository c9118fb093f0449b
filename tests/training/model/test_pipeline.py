"""The network against transformers' BLOOM and torch's own cross-entropy, on one process."""

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
    """Also for head counts that are no power of two, whose ALiBi slopes are interleaved."""
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


@pytest.mark.parametrize("chunk", [60, 2**18])
def test_cross_entropy_and_its_gradient_equal_torch(mesh, monkeypatch, chunk):
    """Row by row as well as all at once; an ignored label adds nothing, and still counts in the mean."""
    from training.parallel import cross_entropy

    monkeypatch.setitem(cross_entropy._CHUNK_ELEMENTS, "cpu", chunk)
    logits = torch.randn(2, 5, 50, generator=torch.Generator().manual_seed(1)) * 4
    labels = torch.randint(0, 50, (2, 5), generator=torch.Generator().manual_seed(2))
    labels[1, 3:] = cross_entropy.IGNORED
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = cross_entropy.vocabulary_parallel_cross_entropy(ours, labels, 0, mesh.tensor_group)
    expected = torch.nn.functional.cross_entropy(
        theirs.view(-1, 50), labels.view(-1), ignore_index=cross_entropy.IGNORED, reduction="sum"
    )
    expected = expected / labels.numel()
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert not ours.grad[1, 3:].any()


def test_cross_entropy_of_bf16_logits_is_computed_in_fp32(mesh):
    from training.parallel.cross_entropy import vocabulary_parallel_cross_entropy

    logits = (torch.randn(1, 64, 300, generator=torch.Generator().manual_seed(1)) * 4).bfloat16().requires_grad_()
    labels = torch.randint(0, 300, (1, 64), generator=torch.Generator().manual_seed(2))
    loss = vocabulary_parallel_cross_entropy(logits, labels, 0, mesh.tensor_group)
    loss.backward()
    exact = logits.detach().double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(exact.view(-1, 300), labels.view(-1))
    expected.backward()
    assert loss.dtype is torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    # The gradient is rounded once, to the type of the logits.
    assert torch.equal(logits.grad, exact.grad.float().bfloat16())


def test_micro_batches_cover_the_global_batch_whatever_the_layout():
    import numpy as np

    from training.data.batches import micro_batches

    def read(sample: int) -> np.ndarray:
        return np.full(5, sample, dtype=np.int64)

    for micro, data in ((1, 1), (2, 1), (2, 2), (1, 4)):
        seen = [
            int(row[0])
            for rank in range(data)
            for inputs, _ in micro_batches(read, range(100, 108), micro, rank, data)
            for row in inputs
        ]
        assert sorted(seen) == list(range(100, 108))
