"""Test that every value that is not finite is found, and that the message names its parameter."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare

MODEL = ModelConfig(layers=2, hidden_size=32, heads=4, sequence_length=32)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_value_that_is_not_finite_is_found_at_any_place(name: str, value: float) -> None:
    import torch

    from bloomery.checkpoint.finite import is_finite

    # The sizes are near multiples of the number of elements in a vector register.
    for size in (1, 7, 8, 33, 1025):
        tensor = torch.linspace(-3e4, 3e4, size).to(getattr(torch, name))
        assert is_finite(tensor)
        for place in {0, size // 2, size - 1}:
            planted = tensor.clone()
            planted[place] = value
            assert not is_finite(planted), (size, place)
            assert is_finite(planted[:place])


def test_tensors_without_floating_point_numbers_and_empty_tensors_are_finite() -> None:
    import torch

    from bloomery.checkpoint.finite import is_finite

    largest = torch.tensor([torch.finfo(torch.float32).max, torch.finfo(torch.float32).min])
    for tensor in (torch.empty(0), torch.tensor([1, 2]), torch.tensor([True]), largest, torch.zeros(3, 0)):
        assert is_finite(tensor)


def _optimizer_state() -> dict[str, object]:
    """Return a state with the keys and the nesting of DeepSpeed's ZeRO 1. Group 1 holds two parameters."""
    import torch

    def at(start: int, count: int) -> SimpleNamespace:
        return SimpleNamespace(start=start, numel=count)

    return {
        "optimizer_state_dict": {
            "single_partition_of_fp32_groups": [torch.zeros(4), torch.zeros(6)],
            "base_optimizer_state": {
                "state": {n: {"exp_avg": torch.zeros(8), "exp_avg_sq": torch.zeros(8)} for n in (0, 1)},
                "param_groups": [{"lr": float("inf")}],
            },
            "param_slice_mappings": [
                {"tied_modules.embed.word_embeddings.weight": at(0, 4)},
                {"2.input_layernorm.weight": at(0, 3), "3.mlp.dense_h_to_4h.bias": at(3, 3)},
            ],
        },
        "ds_version": "0.19",
    }


@pytest.mark.parametrize(
    ("group", "kind", "element", "named"),
    [
        (0, "master", 2, "the fp32 master weight of word_embeddings.weight"),
        (1, "exp_avg", 2, "the exp_avg of h.0.input_layernorm.weight"),
        (1, "exp_avg_sq", 3, "the exp_avg_sq of h.1.mlp.dense_h_to_4h.bias"),
        (1, "exp_avg", 7, "tensor optimizer_state_dict/base_optimizer_state/state/1/exp_avg of the file optim.pt"),
    ],
)
def test_a_value_in_the_optimizer_state_is_named_by_its_parameter(
    group: int, kind: str, element: int, named: str
) -> None:
    from training.checkpoint.finite import not_finite_in_file

    state: dict[str, dict] = _optimizer_state()  # type: ignore[assignment]
    parameters = declare(MODEL, 512)
    assert not_finite_in_file("optim.pt", state, parameters) is None
    optimizer = state["optimizer_state_dict"]
    moments = optimizer["base_optimizer_state"]["state"][group]
    (optimizer["single_partition_of_fp32_groups"][group] if kind == "master" else moments[kind])[element] = float("nan")
    assert not_finite_in_file("optim.pt", state, parameters) == named


def test_a_weight_is_named_by_the_layer_of_its_file() -> None:
    import torch

    from training.checkpoint.finite import not_finite_in_file

    parameters = declare(MODEL, 512)
    bad = torch.tensor([1.0, float("inf")])
    for name, key, named in (
        ("layer_03-model_01-model_states.pt", "mlp.dense_h_to_4h.weight", "weight h.1.mlp.dense_h_to_4h.weight"),
        ("layer_03-model_01-model_states.pt", "other", "tensor other of the file layer_03-model_01-model_states.pt"),
        ("reference.safetensors", "logits", "tensor logits of the file reference.safetensors"),
    ):
        assert not_finite_in_file(name, {"fine": torch.zeros(2), key: bad}, parameters) == named
