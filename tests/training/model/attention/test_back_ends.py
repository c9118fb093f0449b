"""Test that all attention back ends give the same results in the forward and backward pass."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.slow

LENGTH, HEAD_DIM = 40, 16


def _heads(alibi: bool, scale: float = 0.25) -> Any:
    from training.model.attention.heads import Heads

    # These are the heads of the second of two tensor-parallel ranks. The total number of heads is not a power of two.
    return Heads(total=6, first=3, local=3, scale=scale, alibi=alibi)


def _run(name: str, alibi: bool, dtype: torch.dtype) -> tuple[torch.Tensor, list[torch.Tensor]]:
    from training.model.attention.back_ends import BACK_ENDS

    random = torch.Generator().manual_seed(2)
    parts = [torch.randn(2, LENGTH, 3, HEAD_DIM, generator=random).to(dtype).requires_grad_() for _ in range(3)]
    mixed = BACK_ENDS[name](_heads(alibi))(*parts)
    mixed.float().square().sum().backward()
    grads = [part.grad for part in parts]
    assert all(grad is not None for grad in grads)
    return mixed.detach(), [grad for grad in grads if grad is not None]


def _exact(alibi: bool, dtype: torch.dtype) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Compute attention in float64 with a loop over queries, and ALiBi as in transformers: slope * key position."""
    from training.model.alibi import slopes

    random = torch.Generator().manual_seed(2)
    parts = [
        torch.randn(2, LENGTH, 3, HEAD_DIM, generator=random).to(dtype).double().requires_grad_() for _ in range(3)
    ]
    query, key, value = parts
    slope = torch.tensor(slopes(6)[3:], dtype=torch.float64).view(1, 3, 1) if alibi else 0.0
    rows = []
    for at in range(LENGTH):
        scores = torch.einsum("bhd,bjhd->bhj", query[:, at], key[:, : at + 1]) * 0.25
        weights = (scores + slope * torch.arange(at + 1)).softmax(-1)
        rows.append(torch.einsum("bhj,bjhd->bhd", weights, value[:, : at + 1]))
    mixed = torch.stack(rows, dim=1)
    mixed.square().sum().backward()
    return mixed.detach(), [part.grad for part in parts if part.grad is not None]


@pytest.mark.parametrize("alibi", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("name", ["eager", "sdpa", "flex"])
def test_each_back_end_agrees_with_a_plain_float64_computation(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: torch.dtype, tolerance: float, alibi: bool
) -> None:
    from torch.nn.attention import flex_attention

    # On a CPU, torch refuses the backward pass of FlexAttention, because its compiled kernel has none. The uncompiled
    # form has one, so the check is disabled here.
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)
    mixed, grads = _run(name, alibi, dtype)
    expected, expected_grads = _exact(alibi, dtype)
    for found, right in zip([mixed, *grads], [expected, *expected_grads], strict=True):
        assert found.dtype is dtype
        assert (found.double() - right).norm() <= tolerance * right.norm()


def test_flash_is_called_with_the_slopes_of_this_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """flash-attn runs only on GPUs, so a function with its documented signature replaces it and computes eagerly."""
    from training.model.alibi import slopes
    from training.model.attention.back_ends import BACK_ENDS

    def flash_attn_func(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None,
        causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
        alibi_slopes: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        assert causal
        assert dropout_p == softcap == 0.0
        assert softmax_scale == 0.25
        if alibi_slopes is not None:
            assert alibi_slopes.dtype is torch.float32
            torch.testing.assert_close(alibi_slopes, torch.tensor(slopes(6)[3:]))
        return BACK_ENDS["eager"](_heads(alibi_slopes is not None))(q, k, v)

    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace(flash_attn_func=flash_attn_func))
    for alibi in (True, False):
        mixed, _ = _run("flash", alibi, torch.bfloat16)
        expected, _ = _exact(alibi, torch.bfloat16)
        assert (mixed.double() - expected).norm() <= 2e-2 * expected.norm()
    # Reference logits are computed in fp32, which flash-attn does not support, so another back end must be called.
    monkeypatch.setattr(sys.modules["flash_attn"], "flash_attn_func", lambda *parts, **options: 1 / 0)
    _run("flash", True, torch.float32)


def test_stable_attention_does_not_overflow_fp16(mesh: Any) -> None:
    """With queries and keys of 40 and head size 64, the product is 102,400, above fp16's maximum of 65,504."""
    from training.model.attention.back_ends import BACK_ENDS

    value = torch.randn(1, 8, 3, 64, generator=torch.Generator().manual_seed(0)).half()
    big = torch.full_like(value, 40.0)
    stable = 64**-0.25
    attend = BACK_ENDS["eager"](_heads(False, scale=1.0))
    assert torch.isfinite(attend(big * stable, big * stable, value)).all()
    assert not torch.isfinite(BACK_ENDS["eager"](_heads(False, scale=1 / 8))(big, big, value)).all()
