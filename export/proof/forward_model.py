"""Define a model that computes one layer at a time, and compute logits, summaries and greedy texts with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch.nn import functional

from bloomery.checkpoint.reference import Summary, SummaryMaker, chunks_of
from bloomery.spec.proof_memory import HEAD_SLICE_BYTES

Observe = Callable[[str, int, torch.Tensor], None]
"""Function that gets the canonical name of a module, the number of a sample and the module's output [length, size]."""


class ForwardModel(Protocol):
    """A model whose weights are read while it computes. Its fp32 weights are in memory for one layer at a time."""

    def hidden(self, samples: Sequence[torch.Tensor], observe: Observe | None = None) -> list[torch.Tensor]:
        """Compute the output of the final LayerNorm for each sample: int64 [length] -> fp32 [length, hidden].

        All samples pass through a layer before the next layer is read. The samples may have different lengths.
        """
        ...

    def head_slices(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows [rows, hidden] of consecutive slices of the output head's matrix."""
        ...


def slice_rows(hidden: int) -> int:
    """Return the number of rows of a slice of the head's matrix."""
    return max(1, HEAD_SLICE_BYTES // (4 * hidden))


def read_out(
    model: ForwardModel, whole: Sequence[torch.Tensor], long: Sequence[torch.Tensor], vocabulary: int
) -> tuple[list[torch.Tensor], list[Summary]]:
    """Compute the logits of the samples `whole` and the summaries of the samples `long` (int64 [length] each).

    Returns:
        The logits fp32 [length, rows] of each sample in `whole`, and the summary over the first `vocabulary` rows for
        each sample in `long`.
    """
    states = model.hidden([*whole, *long])
    slices: list[list[torch.Tensor]] = [[] for _ in whole]
    makers = [SummaryMaker(tokens, vocabulary) for tokens in long]
    for first, weight in model.head_slices():
        for state, found in zip(states, slices, strict=False):
            found.append(functional.linear(state, weight))
        for state, maker in zip(states[len(whole) :], makers, strict=True):
            for positions in chunks_of(len(state), len(weight)):
                logits = functional.linear(state[positions.start : positions.stop], weight)
                maker.add(positions, first, logits)
    # The slices of a sample are freed when its logits are joined.
    logits_of = [torch.cat(slices.pop(0), dim=-1) for _ in whole]
    return logits_of, [maker.summary() for maker in makers]


def head_logits(model: ForwardModel, states: torch.Tensor) -> torch.Tensor:
    """Return the fp32 logits [positions, rows] of outputs of the final LayerNorm [positions, hidden]."""
    return torch.cat([functional.linear(states, weight) for _, weight in model.head_slices()], dim=-1)


def continue_greedily(
    model: ForwardModel, prompts: Sequence[torch.Tensor], new_tokens: int, vocabulary: int
) -> list[torch.Tensor]:
    """Append the most likely token to each prompt (int64 [length]), `new_tokens` times.

    Only the first `vocabulary` rows are tokens. Every new token needs one pass over all layers.
    """
    texts = list(prompts)
    for _ in range(new_tokens):
        states = torch.stack([state[-1] for state in model.hidden(texts)])
        likeliest = head_logits(model, states)[:, :vocabulary].argmax(dim=-1)
        texts = [torch.cat((text, token[None])) for text, token in zip(texts, likeliest, strict=True)]
    return texts
