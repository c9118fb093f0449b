"""Test the summaries of a checkpoint's reference."""

from __future__ import annotations

import torch

from bloomery.checkpoint.reference import SummaryMaker


def test_the_summary_of_slices_equals_that_of_all_logits() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 12, generator=generator)
    tokens = torch.tensor([3, 9, 0, 7, 7, 1])
    maker = SummaryMaker(tokens, 10)
    for positions in (range(4), range(4, 6)):
        for first in (0, 5, 9):
            last = {0: 5, 5: 9, 9: 12}[first]
            maker.add(positions, first, logits[positions.start : positions.stop, first:last])
    summary, own = maker.summary(), logits[:, :10]
    torch.testing.assert_close(summary.log_sum, own.logsumexp(-1))
    assert torch.equal(summary.greatest, own.amax(-1))
    assert torch.equal(summary.likeliest, own.argmax(-1))
    assert torch.equal(summary.entry_logits, own)
    assert torch.equal(summary.next_logits, own[:-1].gather(1, tokens[1:, None])[:, 0])


def test_a_summary_is_made_on_the_device_of_the_logits() -> None:
    """Tensors on the device `meta` have no data, so every copy of logits to the CPU raises an error."""
    device = torch.device("meta")
    maker = SummaryMaker(torch.tensor([3, 9, 0]), 10, device)
    for positions in (range(2), range(2, 3)):
        maker.add(positions, 0, torch.zeros(len(positions), 12, device=device))
    parts = (maker._entries, maker._log_sum, maker._greatest, maker._likeliest, maker._next)
    assert {part.device for part in parts} == {device}
