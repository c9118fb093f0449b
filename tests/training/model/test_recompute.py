"""Test that recomputation in the backward pass changes neither outputs nor gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fabricated_training import stage
from torch.utils._python_dispatch import TorchDispatchMode

from bloomery.config.stages import TrainStage
from training.parallel import products as products_module


class Products(TorchDispatchMode):
    """Count matrix products and attention calls."""

    def __init__(self) -> None:
        super().__init__()
        self.products = self.attentions = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.__name__
        self.products += name.startswith(("mm.", "addmm."))
        self.attentions += name.startswith("_scaled_dot_product_flash_attention_for_cpu.")
        return function(*args, **(kwargs or {}))


def _run(mesh: Any, what: str, changes: dict[str, Any]) -> tuple[torch.Tensor, list[torch.Tensor], int, int]:
    """Return a block's output and gradients, and the numbers of products and attentions in its backward pass."""
    from training.model.block import TransformerBlock
    from training.model.dropout import DropoutNumbers
    from training.model.kernels import kernels_here

    raw = stage(precision="bf16").model_dump(mode="json")
    raw["model"] |= {"heads": 4, "hidden_size": 64, **changes}
    raw["training"] |= {"activation_checkpointing": what, "kernels": {"attention": "sdpa"}}
    run = TrainStage.model_validate(raw)
    kernels = kernels_here(run.model, run.training, mesh.device)
    dropout = DropoutNumbers(run.training.dropout, mesh.device)
    block = TransformerBlock(mesh, run.model, run.training, kernels, 2, dropout).bfloat16()
    random = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(0.0, 0.2, generator=random)
    x = torch.randn(2, 32, 64, generator=random).bfloat16().requires_grad_()
    y = block(x)
    with Products() as counted:
        y.float().square().sum().backward()
    grads = [parameter.grad for parameter in (x, *block.parameters())]
    return y, [grad for grad in grads if grad is not None], counted.products, counted.attentions


@pytest.mark.parametrize("in_fp32", [False, True], ids=["native", "fp32-products"])
@pytest.mark.parametrize(
    "changes", [{}, {"positions": "rotary", "activation": "swiglu"}], ids=["bloom", "rotary-swiglu"]
)
def test_recomputation_changes_no_bit_of_a_gradient(
    mesh: Any, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], in_fp32: bool
) -> None:
    """Each of the four products needs two in the backward pass.

    Full recomputation repeats all but the last product. If bf16 products are computed in fp32, it repeats all.
    """
    monkeypatch.setattr(products_module, "_is_slow", lambda dtype, device: in_fp32 and dtype is torch.bfloat16)
    kept, grads, products, attentions = _run(mesh, "none", changes)
    assert (products, attentions, len(grads)) == (8, 0, 13)
    for what, again, attention_again in (("full", 3 + in_fp32, 1), ("selective", 0, 0)):
        output, found, total, total_attentions = _run(mesh, what, changes)
        assert torch.equal(output, kept)
        assert all(torch.equal(a, b) for a, b in zip(found, grads, strict=True))
        assert (total, total_attentions) == (products + again, attention_again), what
