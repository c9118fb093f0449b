"""Check after a load that the network still computes the checkpoint's reference logits, on the current layout.

BLOOM's loss moved from 1.944 to 2.043 when its checkpoint was loaded on other layouts, for an unknown reason. Here,
each load reports the loss on the checkpoint's reference batch at the time of the save and after the load. A difference
beyond rounding is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn import functional

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.checkpoint import REFERENCE_NAME, CheckpointManifest, verify_file
from training.checkpoint.collective_calls import from_every_rank, from_rank_0
from training.checkpoint.reference_logits import reference_logits
from training.loop.build_engine import Trainer

TOLERANCE = 1e-4
"""Largest allowed difference of a logit, divided by the largest logit, and of the loss, divided by the loss.

Logits are computed in fp32, so only the order of sums differs. When BLOOM's layout changed, its loss changed by 5e-3 of
its value or more.
"""


@dataclass(frozen=True)
class Continuity:
    """Loss and logits of the reference batch, compared between the save and the load."""

    loss_before: float
    """Mean cross-entropy from the checkpoint's logits, in nats per token."""
    loss_now: float
    """Mean cross-entropy from the loaded network's logits, in nats per token."""
    difference: float
    """Largest difference of a logit, divided by the largest absolute logit (at least 1)."""

    @property
    def holds(self) -> bool:
        """Whether the differences are within `TOLERANCE`. False if any value is NaN."""
        moved = abs(self.loss_now - self.loss_before)
        return self.difference <= TOLERANCE and moved <= TOLERANCE * self.loss_before

    def __str__(self) -> str:
        return (
            f"loss on the reference batch: {self.loss_before:.6f} when saved, {self.loss_now:.6f} now; "
            f"the logits differ by at most {self.difference:.1e} of the largest logit"
        )


def check_continuity(trainer: Trainer, folder: Path, manifest: CheckpointManifest) -> Continuity:
    """Compare the loaded network with the reference logits of its checkpoint. Collective.

    Every rank returns the same result.

    Raises:
        CheckFailedError: the logits or the loss differ by more than `TOLERANCE`, or the reference file does not match
            the manifest.
    """
    path = from_rank_0(lambda: verify_file(folder, manifest, REFERENCE_NAME))
    reference = load_file(path)
    tokens, expected = reference["tokens"], reference["logits"]
    logits = reference_logits(trainer, tokens)
    own = None if logits is None else compare(tokens, expected, logits.cpu())
    found = next(each for each in from_every_rank(lambda: own) if each is not None)
    if not found.holds:
        raise CheckFailedError(
            f"the loaded network differs from the saved network: {found}",
            where=str(folder),
            expected=f"loss and logits with relative differences of at most {TOLERANCE:g}; to resume from an older "
            "checkpoint, move this one away and run the same command again",
        )
    return found


def compare(tokens: torch.Tensor, expected: torch.Tensor, logits: torch.Tensor) -> Continuity:
    """Compare `logits` with `expected`, both [samples, length, rows], on `tokens` [samples, length]."""
    greatest = max(1.0, float(expected.abs().max()))
    return Continuity(_loss(tokens, expected), _loss(tokens, logits), float((logits - expected).abs().max()) / greatest)


def _loss(tokens: torch.Tensor, logits: torch.Tensor) -> float:
    """Return the mean cross-entropy of the next token, in nats per token."""
    return float(functional.cross_entropy(logits[:, :-1].flatten(0, 1).double(), tokens[:, 1:].flatten()))
