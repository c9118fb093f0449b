"""Test that cross-entropy in chunks equals torch's cross-entropy."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("chunk", [60, 2**18])
def test_cross_entropy_and_its_gradient_equal_torch(mesh, monkeypatch, chunk):
    """One case computes row by row, the other all rows at once.

    An ignored label adds nothing to the sum, but counts in the denominator of the mean.
    """
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
    # The gradient is rounded only once, to the type of the logits.
    assert torch.equal(logits.grad, exact.grad.float().bfloat16())
