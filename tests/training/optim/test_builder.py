"""One builder makes each optimizer, in each implementation."""

from __future__ import annotations

import pytest
import torch
from whole_model import step_count

from bloomery.base.errors import ConfigError
from bloomery.config.training import OptimizerConfig
from training.optim.builder import build_optimizer, set_step_count


def _trained(optimizer: OptimizerConfig, kernel: str, steps: int = 3) -> tuple[torch.Tensor, torch.optim.Optimizer]:
    """A weight after some steps on the gradient of its square."""
    weight = torch.nn.Parameter(torch.linspace(-1.0, 2.0, 64))
    built = build_optimizer([{"params": [weight], "weight_decay": 0.1}], optimizer, kernel)
    for _ in range(steps):
        weight.grad = 2.0 * weight.detach()
        built.step()
    return weight.detach(), built


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_implementations_agree(kind: str) -> None:
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


def test_lamb_is_refused() -> None:
    with pytest.raises(ConfigError, match="lamb is not trained yet"):
        _trained(OptimizerConfig(kind="lamb", learning_rate=0.1), "torch")
