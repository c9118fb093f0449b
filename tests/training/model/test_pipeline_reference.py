"""Compare the network with a plain float64 reference, written from the papers.

The reference is one function without layer classes and attention back ends.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from dropout_masks import AFTER_ATTENTION, AFTER_FEED_FORWARD, ATTENTION, EMBEDDING, factors
from fabricated_training import stage

from bloomery.config.stages import TrainStage

ROWS, HEADS, HIDDEN, FEED_FORWARD, LAYERS = 256, 4, 48, 80, 3
SEED, ITERATION, SAMPLES = 7, 12, (31, 5)
Weights = dict[str, torch.Tensor]


def _layer_norm(x: torch.Tensor, weights: Weights, name: str) -> torch.Tensor:
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt() * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear(x: torch.Tensor, weights: Weights, name: str) -> torch.Tensor:
    return x @ weights[f"{name}.weight"].t() + weights[f"{name}.bias"]


def _turned(x: torch.Tensor, base: float) -> torch.Tensor:
    """Rotate feature pairs (i, i + d / 2) by position * angle, as complex numbers (RoFormer, equation 12)."""
    length, half = x.size(1), x.size(-1) // 2
    angle = base ** (-torch.arange(half, dtype=torch.float64) / half)
    turn = torch.polar(torch.ones(length, half, dtype=torch.float64), torch.arange(length).view(-1, 1) * angle)
    turned = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat((turned.real, turned.imag), dim=-1)


def _dropped(x: torch.Tensor, layer: int, place: int, probability: float) -> torch.Tensor:
    """Apply dropout. Row r is the sample SAMPLES[r], and `layer` is the pipeline layer."""
    if probability == 0:
        return x
    shape = tuple(x.shape[1:])
    found = [factors(SEED, ITERATION, sample, layer, place, shape, probability) for sample in SAMPLES]
    return x * torch.stack([torch.from_numpy(each) for each in found])


def _attention(
    x: torch.Tensor, weights: Weights, name: str, rotary_base: float | None, layer: int, probability: float
) -> torch.Tensor:
    size, length = HIDDEN // HEADS, x.size(1)
    fused = _linear(x, weights, f"{name}.query_key_value")
    shares, values = [], []
    for head in range(HEADS):
        query, key, value = fused[..., 3 * size * head : 3 * size * (head + 1)].split(size, dim=-1)
        if rotary_base is not None:
            query, key = _turned(query, rotary_base), _turned(key, rotary_base)
        scores = query @ key.transpose(1, 2) / size**0.5
        future = torch.arange(length).view(-1, 1) < torch.arange(length)
        shares.append(scores.masked_fill(future, -torch.inf).softmax(-1))
        values.append(value)
    dropped = _dropped(torch.stack(shares, dim=1), layer, ATTENTION, probability)
    mixed = [dropped[:, head] @ value for head, value in enumerate(values)]
    return _linear(torch.cat(mixed, dim=-1), weights, f"{name}.dense")


def _feed_forward(x: torch.Tensor, weights: Weights, name: str, swiglu: bool) -> torch.Tensor:
    wide = _linear(x, weights, f"{name}.dense_h_to_4h")
    if swiglu:
        gate, up = wide[..., 0::2], wide[..., 1::2]
        wide = gate / (1 + (-gate).exp()) * up
    else:
        wide = 0.5 * wide * (1 + ((2 / torch.pi) ** 0.5 * (wide + 0.044715 * wide**3)).tanh())
    return _linear(wide, weights, f"{name}.dense_4h_to_h")


def reference(tokens: torch.Tensor, weights: Weights, model: Any, dropout: Any) -> torch.Tensor:
    """Return the logits."""
    x = weights["word_embeddings.weight"][tokens]
    if model.embedding_layernorm:
        x = _layer_norm(x, weights, "word_embeddings_layernorm")
    if model.positions == "learned":
        x = x + weights["position_embeddings.weight"][: tokens.size(1)]
    x = _dropped(x, 1, EMBEDDING, dropout.hidden)
    base = model.rotary_base if model.positions == "rotary" else None
    for block in range(model.layers):
        name, layer = f"h.{block}", 2 + block
        normal = _layer_norm(x, weights, f"{name}.input_layernorm")
        mixed = _attention(normal, weights, f"{name}.self_attention", base, layer, dropout.attention)
        x = x + _dropped(mixed, layer, AFTER_ATTENTION, dropout.hidden)
        normal = _layer_norm(x, weights, f"{name}.post_attention_layernorm")
        fed = _feed_forward(normal, weights, f"{name}.mlp", model.activation == "swiglu")
        x = x + _dropped(fed, layer, AFTER_FEED_FORWARD, dropout.hidden)
    head = weights["word_embeddings.weight" if model.tied_embeddings else "lm_head.weight"]
    return _layer_norm(x, weights, "ln_f") @ head.t()


@pytest.mark.parametrize("dropout", [{}, {"attention": 0.2, "hidden": 0.1}], ids=["whole", "dropout"])
@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "rotary", "rotary_base": 500.0, "activation": "swiglu", "embedding_layernorm": False},
        {"positions": "rotary", "tied_embeddings": False, "stable_attention": False},
        {"positions": "learned", "tied_embeddings": False},
        {"positions": "learned", "activation": "swiglu", "embedding_layernorm": False, "stable_attention": False},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_logits_and_gradients_equal_a_plain_reference(
    mesh: Any, changes: dict[str, Any], dropout: dict[str, float]
) -> None:
    from bloomery.spec.parameters import declare
    from training.model.initialize import initialize
    from training.model.pipeline import BloomPipeline

    raw = stage(precision="fp32").model_dump(mode="json")
    raw["model"] |= {
        "heads": HEADS,
        "hidden_size": HIDDEN,
        "layers": LAYERS,
        "feed_forward_size": FEED_FORWARD,
        **changes,
    }
    raw["training"] |= {"dropout": dropout}
    run = TrainStage.model_validate(raw)
    network = BloomPipeline(mesh, run.model, run.training, ROWS)
    initialize(network, mesh, run.model, ROWS, seed=5)
    modules, declared = network.local_modules(), declare(run.model, ROWS)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        # Biases of zero would hide wrong uses of the biases.
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=random)
    ours = {p.name: modules[p.layer].get_parameter(p.local_name) for p in declared}
    assert sum(p.count for p in declared) == sum(p.numel() for p in network.parameters())
    exact = {name: value.detach().double().requires_grad_() for name, value in ours.items()}
    tokens = torch.randint(0, ROWS, (2, 25), generator=random)
    with network.dropout.step(SEED, ITERATION, [SAMPLES]):
        x = network(tokens[:, :-1])
    expected = reference(tokens[:, :-1], exact, run.model, run.training.dropout)
    torch.testing.assert_close(x.double(), expected, rtol=1e-5, atol=1e-5)
    network.loss_fn(x, tokens[:, 1:]).backward()
    torch.nn.functional.cross_entropy(expected.flatten(0, 1), tokens[:, 1:].flatten()).backward()
    for name, value in ours.items():
        right = exact[name].grad
        assert value.grad is not None
        assert right is not None
        # The gradient of a key's bias is zero except for rounding, so the tolerance has an absolute minimum.
        assert (value.grad.double() - right).norm() <= 1e-5 * max(1e-2, float(right.norm())), name
