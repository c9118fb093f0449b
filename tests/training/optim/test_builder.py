"""Test that the builder creates each optimizer in each implementation."""

from __future__ import annotations

import pytest
import torch
from fake_apex import FusedAdam
from whole_model import step_count

from bloomery.config.training import OptimizerConfig
from training.optim.builder import build_optimizer, set_step_count


def _trained(optimizer: OptimizerConfig, kernel: str, steps: int = 3) -> tuple[torch.Tensor, torch.optim.Optimizer]:
    """Return a weight after some steps on the gradient of its square, and its optimizer."""
    weight = torch.nn.Parameter(torch.linspace(-1.0, 2.0, 64))
    built = build_optimizer([{"params": [weight], "weight_decay": 0.1}], optimizer, kernel)
    for _ in range(steps):
        weight.grad = 2.0 * weight.detach()
        built.step()
    return weight.detach(), built


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_implementations_of_an_optimizer_agree(kind: str) -> None:
    optimizer = OptimizerConfig(kind=kind, learning_rate=0.1, momentum=0.9)
    plain, fused = (_trained(optimizer, kernel)[0] for kernel in ("torch", "fused"))
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-7)
    assert not torch.equal(plain, torch.linspace(-1.0, 2.0, 64))


@pytest.mark.parametrize("kernel", ["torch", "fused"])
def test_the_count_of_updates_can_be_read_and_set(kernel: str) -> None:
    _, built = _trained(OptimizerConfig(learning_rate=0.1), kernel, steps=0)
    assert step_count(built) == 0
    _, built = _trained(OptimizerConfig(learning_rate=0.1), kernel, steps=2)
    assert step_count(built) == 2
    set_step_count(built, 7)
    assert step_count(built) == 7
    built.step()
    assert step_count(built) == 8


def _updates(kernel: str, updates: int, gone_on: torch.optim.Optimizer | None = None) -> torch.optim.Optimizer:
    """Return an Adam optimizer after `updates` updates of two groups on the gradients of their squares.

    If `gone_on` is not None, start from the state of this optimizer after 3 updates.
    """
    from training.optim.builder import build_optimizer, set_step_count

    optimizer = OptimizerConfig(learning_rate=0.1, beta1=0.7, beta2=0.8, epsilon=0.01)
    weights = [torch.nn.Parameter(torch.linspace(-1.0, 2.0, size)) for size in (64, 8)]
    decays = (0.5, 0.0)
    groups = [{"params": [weight], "weight_decay": decay} for weight, decay in zip(weights, decays, strict=True)]
    built = build_optimizer(groups, optimizer, kernel)
    if gone_on is not None:
        # Copy the state as loading a checkpoint of another layout does: weights, moments, then the number of updates.
        for here, there in zip(weights, (group["params"][0] for group in gone_on.param_groups), strict=True):
            here.data.copy_(there.data)
            built.state[here].update({key: gone_on.state[there][key].clone() for key in ("exp_avg", "exp_avg_sq")})
        set_step_count(built, 3)
    for _ in range(updates):
        for weight in weights:
            weight.grad = 2.0 * weight.detach()
        built.step()
    return built


def _weights(optimizer: torch.optim.Optimizer) -> torch.Tensor:
    return torch.cat([weight.detach() for group in optimizer.param_groups for weight in group["params"]])


@pytest.mark.usefixtures("apex")
def test_adam_of_apex_equals_that_of_torch() -> None:
    """No hyperparameter has its default value, and each implementation can continue from the state of the other."""
    right, fused = _updates("torch", 3), _updates("apex", 3)
    assert isinstance(fused, FusedAdam)
    torch.testing.assert_close(_weights(fused), _weights(right), rtol=0, atol=0)
    further = _weights(_updates("torch", 5))
    for kernel, other in (("apex", right), ("torch", fused), ("apex", fused)):
        torch.testing.assert_close(_weights(_updates(kernel, 2, other)), further, rtol=0, atol=0)


@pytest.mark.usefixtures("apex")
def test_adam_of_apex_stores_the_step_count_in_its_groups() -> None:
    from training.optim.builder import set_step_count

    built = _updates("apex", 2)
    set_step_count(built, 7)
    built.step()
    assert [group["step"] for group in built.param_groups] == [8, 8]
    assert all(state.keys() == {"exp_avg", "exp_avg_sq"} for state in built.state.values())
