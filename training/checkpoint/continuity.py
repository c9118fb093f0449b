"""The check that a training is still the same one after a load: its reference logits, computed anew on this layout.

BLOOM's loss moved from 1.944 to 2.043 when its checkpoint was put on other layouts, and nobody could say why. Here the
loss on the checkpoint's reference batch is said before and after, and a difference beyond rounding is an error.
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
"""Greatest difference of a logit over the greatest logit, and of the loss over the loss: both are computed in fp32,
so that only the order of sums differs. The smallest move of BLOOM's loss was 5e-3 of it."""


@dataclass(frozen=True)
class Continuity:
    """The reference batch before and after a load."""

    loss_before: float
    """Mean cross-entropy by the checkpoint's logits, nats a token."""
    loss_now: float
    """The same, by the logits of the loaded network."""
    difference: float
    """Greatest difference of a logit, over the greatest logit or 1."""

    @property
    def holds(self) -> bool:
        """Whether only rounding differs; never with NaN."""
        moved = abs(self.loss_now - self.loss_before)
        return self.difference <= TOLERANCE and moved <= TOLERANCE * self.loss_before

    def __str__(self) -> str:
        return (
            f"loss on the reference batch {self.loss_before:.6f} before, {self.loss_now:.6f} now; "
            f"logits differ by {self.difference:.1e} of the greatest"
        )


def check_continuity(trainer: Trainer, folder: Path, manifest: CheckpointManifest) -> Continuity:
    """Compare the loaded network with the reference logits of its checkpoint. Collective; the same on every rank.

    Raises:
        CheckFailedError: they differ by more than rounding, or the reference is not what the manifest says.
    """
    path = from_rank_0(lambda: verify_file(folder, manifest, REFERENCE_NAME))
    reference = load_file(path)
    tokens, expected = reference["tokens"], reference["logits"]
    logits = reference_logits(trainer, tokens)
    own = None if logits is None else compare(tokens, expected, logits.cpu())
    found = next(each for each in from_every_rank(lambda: own) if each is not None)
    if not found.holds:
        raise CheckFailedError(
            f"the network that was loaded is not the one that was saved: {found}",
            where=str(folder),
            expected=f"a difference of at most {TOLERANCE:g}",
        )
    return found


def compare(tokens: torch.Tensor, expected: torch.Tensor, logits: torch.Tensor) -> Continuity:
    """Compare logits [samples, length, rows] on `tokens` [samples, length]."""
    greatest = max(1.0, float(expected.abs().max()))
    return Continuity(_loss(tokens, expected), _loss(tokens, logits), float((logits - expected).abs().max()) / greatest)


def _loss(tokens: torch.Tensor, logits: torch.Tensor) -> float:
    return float(functional.cross_entropy(logits[:, :-1].flatten(0, 1).double(), tokens[:, 1:].flatten()))
