"""Compare the exported model with the reference of its checkpoint, and decide whether the export is right.

A split network sums products in another order, which changes the logits by rounding. Therefore a tolerance is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.parity import Generation, HeldOutLoss
from bloomery.spec.export_resources import new_tokens
from export.proof.forward_model import ForwardModel, continue_greedily, head_logits, read_out

if TYPE_CHECKING:
    from bloomery.checkpoint.reference import Reference, Summary

PROMPT_TOKENS = 16


@dataclass(frozen=True)
class Comparison:
    """Result of comparing the exported model with the training model."""

    samples: int
    tokens: int
    max_absolute_difference: float
    max_logit: float
    argmax_agreement: float
    held_out: dict[str, HeldOutLoss]
    """Loss on the longer reference samples of each validation set, in the training and in the export."""
    generations: tuple[Generation, ...] = ()
    """Greedy texts of the exported model, which equal those of the checkpoint."""
    worst_sample: torch.Tensor = field(default_factory=lambda: torch.zeros(1, dtype=torch.int64))
    """Tokens of the sample whose logits differ most, int64 [length]."""

    @property
    def max_difference(self) -> float:
        """Largest absolute difference of corresponding logits, divided by the largest absolute logit (at least 1)."""
        return self.max_absolute_difference / max(1.0, self.max_logit)

    def recorded(self) -> dict[str, Any]:
        """Return the values of parity.json that state this result."""
        names = ("samples", "tokens", "max_difference", "max_absolute_difference", "max_logit", "argmax_agreement")
        found = {name: getattr(self, name) for name in names}
        return found | {"held_out": self.held_out, "generations": list(self.generations)}


def compare(model: ForwardModel, reference: Reference, rows: int, vocabulary: int, where: str) -> Comparison:
    """Compare the logits of `model` with the reference, at every position of every sample.

    Args:
        model: the exported model.
        reference: the reference of the checkpoint.
        rows: rows of the exported embedding.
        vocabulary: entries of the tokenizer.
        where: the checkpoint, for an error message.

    Raises:
        CheckFailedError: the reference is not finite.
    """
    _check_finite(reference, where)
    tokens = [sample.clamp(max=rows - 1) for sample in reference.tokens]
    logits, summaries = read_out(model, tokens, [each.tokens for each in reference.long], vocabulary)
    difference = _Difference()
    for sample, expected, got in zip(tokens, reference.logits[:, :, :rows], logits, strict=True):
        difference.begin(sample)
        difference.add(got, expected)
        difference.count(got.argmax(-1), expected.argmax(-1))
    losses: dict[str, list[tuple[float, float]]] = {}
    for long, found in zip(reference.long, summaries, strict=True):
        difference.begin(long.tokens)
        _add_summary(difference, found, long.summary)
        losses.setdefault(long.name, []).append((long.summary.loss, found.loss))
    return Comparison(
        samples=len(logits) + len(summaries),
        tokens=difference.positions,
        max_absolute_difference=difference.greatest,
        max_logit=difference.max_logit,
        argmax_agreement=difference.agreed / difference.positions,
        held_out={name: _mean(pairs) for name, pairs in losses.items()},
        worst_sample=difference.worst,
    )


def _mean(pairs: Sequence[tuple[float, float]]) -> HeldOutLoss:
    before, now = zip(*pairs, strict=True)
    return HeldOutLoss(samples=len(pairs), training=sum(before) / len(before), exported=sum(now) / len(now))


def _add_summary(difference: _Difference, found: Summary, expected: Summary) -> None:
    difference.add(found.entry_logits, expected.entry_logits)
    difference.add(found.log_sum, expected.log_sum)
    difference.add(found.greatest, expected.greatest)
    difference.add(found.next_logits, expected.next_logits)
    difference.count(found.likeliest, expected.likeliest)


class _Difference:
    """Collects the largest difference, the sample that has it, and the number of equal predictions."""

    def __init__(self) -> None:
        self.greatest = self.max_logit = 0.0
        self.agreed = self.positions = 0
        self.worst = self._sample = torch.empty(0, dtype=torch.int64)

    def begin(self, sample: torch.Tensor) -> None:
        """Begin a sample, which is the worst one until a later sample differs more."""
        self._sample = sample
        if not len(self.worst):
            self.worst = sample

    def add(self, got: torch.Tensor, expected: torch.Tensor) -> None:
        # torch.maximum keeps NaN, so a broken export is not mistaken for a small difference.
        greatest = float(torch.maximum(torch.tensor(self.greatest), (got - expected).abs().max()))
        if not greatest <= self.greatest and not math.isnan(self.greatest):
            self.worst = self._sample
        self.greatest = greatest
        self.max_logit = max(self.max_logit, float(expected.abs().max()))

    def count(self, got: torch.Tensor, expected: torch.Tensor) -> None:
        self.agreed += int((got == expected).sum())
        self.positions += len(got)


def _check_finite(reference: Reference, where: str) -> None:
    short = [bool(torch.isfinite(each).all()) for each in reference.logits]
    long = [bool(torch.isfinite(each.summary.log_sum).all()) for each in reference.long]
    for number, finite in enumerate([*short, *long]):
        if not finite:
            raise CheckFailedError(
                f"the reference logits of sample {number} are not finite",
                where=where,
                expected="finite logits; export another checkpoint (--checkpoint)",
            )


def check(comparison: Comparison, tolerance: float, *, where: str, hint: str | None = None) -> None:
    """Raise CheckFailedError if the difference exceeds the tolerance or is NaN."""
    if not comparison.max_difference <= tolerance:
        raise CheckFailedError(
            "the fp32 logits of the exported model differ from those of the training model by up to "
            f"{comparison.max_difference:.3g} of the largest logit (absolute difference "
            f"{comparison.max_absolute_difference:.3g}, largest logit {comparison.max_logit:.3g}); the most likely "
            f"token is the same at {100 * comparison.argmax_agreement:.1f} % of the positions"
            + (f"; {hint}" if hint else ""),
            where=where,
            expected=f"a difference of at most {tolerance:g} (`export.tolerance`, or `--tolerance` of "
            "`bloomery export deepspeed`); the rejected model stays in this "
            "folder, so that you can inspect it",
        )


def prompts_of(reference: Reference) -> tuple[list[str], list[torch.Tensor]]:
    """Return the beginning of one sample of each validation set, or of the first short sample, with their names."""
    samples = {each.name: each.tokens for each in reversed(reference.long)} or {"train": reference.tokens[0]}
    names = sorted(samples)
    return names, [samples[name][: max(1, min(PROMPT_TOKENS, len(samples[name]) // 2))] for name in names]


def with_greedy_texts(
    comparison: Comparison,
    written: ForwardModel,
    pieces: ForwardModel,
    reference: Reference,
    tokenizer: Any,
    *,
    parameters: int,
    sequence_length: int,
    tolerance: float,
    where: str,
) -> Comparison:
    """Continue prompts greedily with the exported model, and check that the checkpoint's pieces choose the same tokens.

    The pieces compute each text once. Each token that the exported model chose must be their most likely token.
    If two tokens are equally likely within the tolerance, either one is right.

    Args:
        comparison: result to which the texts are added.
        written: the exported model.
        pieces: the model that the checkpoint's pieces form.
        reference: the reference of the checkpoint, whose samples begin the texts.
        tokenizer: tokenizer of the exported model in transformers.
        parameters: number of parameters of the model.
        sequence_length: largest length of a text. Models with learned positions cannot continue beyond it.
        tolerance: `export.tolerance`.
        where: folder of the exported model, for an error message.

    Raises:
        CheckFailedError: the pieces choose another token.
    """
    names, prompts = prompts_of(reference)
    vocabulary = min(len(tokenizer), reference.logits.shape[-1])
    longest = max(len(prompt) for prompt in prompts)
    count = min(new_tokens(parameters), sequence_length - longest)
    texts = continue_greedily(written, prompts, count, vocabulary)
    states = pieces.hidden([text[:-1] for text in texts])
    found = []
    for name, prompt, text, state in zip(names, prompts, texts, states, strict=True):
        # Each position from the prompt's last token on predicts one new token.
        logits = head_logits(pieces, state[len(prompt) - 1 :])[:, :vocabulary]
        best, chosen = logits.amax(dim=-1), logits.gather(1, text[len(prompt) :, None])[:, 0]
        if bool(((best - chosen) > tolerance * logits.abs().amax(dim=-1).clamp(min=1)).any()):
            raise CheckFailedError(
                f"the greedy continuation of the first {len(prompt)} tokens of a sample of {name!r} differs from that "
                "of the checkpoint",
                where=where,
                expected="the same most likely tokens; report this error of Bloomery",
            )
        begin = tokenizer.decode(prompt, skip_special_tokens=True)
        # Decode prompt and continuation together, because a character may be split between them.
        whole = tokenizer.decode(text, skip_special_tokens=True)
        found.append(Generation(name=name, prompt=begin, text=whole.removeprefix(begin)))
    return replace(comparison, generations=tuple(found))
