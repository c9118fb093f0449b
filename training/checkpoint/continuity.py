"""Check after a load that the network still computes the checkpoint's reference logits, on the current layout.

BLOOM's loss moved from 1.944 to 2.043 when its checkpoint was loaded on other layouts, for an unknown reason. Here,
each load reports the loss on the checkpoint's reference batch at the time of the save and after the load. A difference
beyond rounding is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch.nn import functional

from bloomery.base.atomic import write_bytes
from bloomery.base.errors import CheckFailedError
from bloomery.checkpoint.finite import is_finite
from bloomery.checkpoint.reference import read_reference, reference_tensors
from bloomery.contracts.checkpoint import (
    REFERENCE_BEFORE_REPAIR_NAME,
    REFERENCE_NAME,
    CheckpointManifest,
    lacks_reference,
    verify_file,
    write_manifest,
)
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.initial_checkpoint import own_rows
from bloomery.contracts.resume_policy import saved_stage
from training.checkpoint.collective_calls import damage_on_any_rank, from_every_rank, from_rank_0
from training.checkpoint.reference_logits import ReferenceSamples, compute_reference, reference_logits
from training.loop.build_engine import Trainer

_OLDER_CHECKPOINT = "to resume from an older checkpoint, move this one away and run the same command again"
_OTHER_CHECKPOINT = "import the model again, or choose another training.initial_checkpoint"
TOLERANCE = 1e-4
"""Largest allowed difference of a logit, divided by the largest logit, and of the loss, divided by the loss.

Logits are computed in fp32, so only the order of sums differs. When BLOOM's layout changed, its loss changed by 5e-3 of
its value or more.
"""
ROUNDING_TOLERANCE = 0.05
"""Largest allowed differences, as for `TOLERANCE`, if the loaded weights were rounded to another precision.

Rounding to bf16 changes each weight by at most 2^-8 of its value. In random networks of 4 and 12 blocks, it moved the
logits by up to 0.009 of the largest one. Two swapped blocks moved them by 0.09 or more.
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
    repaired: bool = False
    """Whether a repair changed the checkpoint after it was saved, so that differences are expected."""

    def is_within(self, tolerance: float) -> bool:
        """Return whether the relative differences are within `tolerance`. Return False if any value is NaN."""
        moved = abs(self.loss_now - self.loss_before)
        return self.difference <= tolerance and moved <= tolerance * self.loss_before

    def __str__(self) -> str:
        note = "; the checkpoint was repaired, so the new logits replace the saved ones" if self.repaired else ""
        return (
            f"loss on the reference batch: {self.loss_before:.6f} when saved, {self.loss_now:.6f} now; "
            f"the logits differ by at most {self.difference:.1e} of the largest logit{note}"
        )


def check_continuity(trainer: Trainer, folder: Path, manifest: CheckpointManifest) -> Continuity:
    """Compare the loaded network with the reference logits of its checkpoint. Collective.

    Every rank returns the same result, or raises the same error. If a repair removed the checkpoint's reference logits,
    this function computes new ones and adds them to the checkpoint.

    Raises:
        CheckFailedError: the logits or the loss differ by more than `TOLERANCE`, or the reference file does not match
            the manifest, cannot be read, or does not fit the network.
    """
    repaired = lacks_reference(manifest)
    name = REFERENCE_BEFORE_REPAIR_NAME if repaired else REFERENCE_NAME
    from_rank_0(lambda: verify_file(folder, manifest, name))
    reference: list[tuple[torch.Tensor, torch.Tensor]] = []
    problem = damage_on_any_rank(
        lambda: reference.append(_read_reference(folder / name, trainer.vocabulary_rows, finite=not repaired))
    )
    if problem is not None:
        raise CheckFailedError(
            f"the reference logits cannot be used: {problem}", where=str(folder), expected=_OLDER_CHECKPOINT
        )
    tokens, expected = reference[0]
    logits = reference_logits(trainer, tokens)
    own = None if logits is None else compare(tokens, expected, logits.cpu())
    found = next(each for each in from_every_rank(lambda: own) if each is not None)
    if repaired:
        return _add_reference(trainer, folder, manifest, found)
    if not found.is_within(TOLERANCE):
        raise CheckFailedError(
            f"the loaded network differs from the saved network: {found}",
            where=str(folder),
            expected=f"loss and logits with relative differences of at most {TOLERANCE:g}; {_OLDER_CHECKPOINT}",
        )
    return found


def check_initial_weights(trainer: Trainer, folder: Path, manifest: CheckpointManifest) -> Continuity | None:
    """Compare the loss and the logits of initial weights with the reference of their checkpoint. Collective.

    Masked rows are not compared, because the trainer and the checkpoint may have different numbers of them.
    Return None if the checkpoint has no reference.

    Raises:
        CheckFailedError: the reference is damaged, or the loss or the logits differ by more than `TOLERANCE`, or by
            more than `ROUNDING_TOLERANCE` if the weights were rounded to another precision.
    """
    if REFERENCE_NAME not in manifest.files:
        return None
    reference: list[tuple[torch.Tensor, torch.Tensor]] = []
    rows, own = manifest.vocabulary_rows, own_rows(manifest)
    problem = damage_on_any_rank(lambda: reference.append(_read_reference(folder / REFERENCE_NAME, rows, finite=True)))
    if problem is not None:
        raise CheckFailedError(
            f"the reference logits cannot be used: {problem}", where=str(folder), expected=_OTHER_CHECKPOINT
        )
    tokens, expected = reference[0]
    logits = reference_logits(trainer, tokens)
    here = None if logits is None else compare(tokens, expected[..., :own], logits[..., :own].cpu())
    found = next(each for each in from_every_rank(lambda: here) if each is not None)
    same = saved_stage(manifest).training.precision == trainer.stage.training.precision
    tolerance = TOLERANCE if same else ROUNDING_TOLERANCE
    if not found.is_within(tolerance):
        raise CheckFailedError(
            f"the loaded network differs from that of the checkpoint: {found}",
            where=str(folder),
            expected=f"loss and logits with relative differences of at most {tolerance:g}; {_OTHER_CHECKPOINT}",
        )
    return found


def _read_reference(path: Path, rows: int, *, finite: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the reference tokens and logits in a checkpoint's file. `rows` is the number of embedding rows.

    Raises:
        CheckFailedError: the file is damaged although its hash matches, or it does not fit the network. With `finite`,
            the error is also raised if the logits are not finite.
    """
    try:
        reference = load_file(path)
        tokens, logits = reference["tokens"], reference["logits"]
    except (SafetensorError, KeyError) as error:
        raise CheckFailedError(
            "the file does not hold reference tokens and logits", where=str(path), expected=_OLDER_CHECKPOINT
        ) from error
    fits = (
        tokens.dtype == torch.int64
        and tokens.dim() == 2
        and tokens.numel() > 0
        and 0 <= int(tokens.min()) <= int(tokens.max()) < rows
        and logits.dtype == torch.float32
        and logits.shape == (*tokens.shape, rows)
        and (is_finite(logits) or not finite)
    )
    if not fits:
        raise CheckFailedError(
            f"the file holds tokens of shape {tuple(tokens.shape)} and logits of shape {tuple(logits.shape)}; they "
            "do not fit the network, or some logits are not finite",
            where=str(path),
            expected=f"token ids below {rows}, and one row of {rows} finite logits for each token; {_OLDER_CHECKPOINT}",
        )
    return tokens, logits


def _add_reference(trainer: Trainer, folder: Path, manifest: CheckpointManifest, found: Continuity) -> Continuity:
    """Add the loaded network's reference to a repaired checkpoint. Collective.

    A repair changes weights, so the reference from before the repair no longer fits the network. Later loads and
    exports are compared with the new reference. If this function is interrupted, the next load calls it again.

    Raises:
        CheckFailedError: the logits are not finite, or the reference from before the repair is damaged.
    """
    samples: list[ReferenceSamples] = []
    before = folder / REFERENCE_BEFORE_REPAIR_NAME
    problem = damage_on_any_rank(lambda: samples.append(_samples_of(before, manifest.vocabulary_size)))
    if problem is not None:
        raise CheckFailedError(
            f"the reference logits cannot be used: {problem}", where=str(folder), expected=_OLDER_CHECKPOINT
        )
    reference = compute_reference(trainer, samples[0], manifest.vocabulary_size)

    def write() -> None:
        if reference is not None:
            write_bytes(folder / REFERENCE_NAME, save(*reference_tensors(reference)))

    def add() -> None:
        files = dict(sorted({**manifest.files, REFERENCE_NAME: FileEntry.of(folder / REFERENCE_NAME)}.items()))
        write_manifest(folder, manifest.model_copy(update={"files": files}))

    if not all(from_every_rank(lambda: reference is None or bool(reference.logits.isfinite().all()))):
        raise CheckFailedError(
            f"the logits of the repaired network are not finite: {found}",
            where=str(folder),
            expected="finite logits; repair the checkpoint with the other value of --on-drift, or move it away to "
            "resume from an older checkpoint",
        )
    from_every_rank(write)
    from_rank_0(add)
    return replace(found, repaired=True)


def _samples_of(path: Path, vocabulary: int) -> ReferenceSamples:
    """Return the samples of a reference file."""
    reference = read_reference(path, vocabulary)
    return ReferenceSamples(reference.tokens, tuple((each.name, each.tokens) for each in reference.long))


def compare(tokens: torch.Tensor, expected: torch.Tensor, logits: torch.Tensor) -> Continuity:
    """Compare `logits` with `expected`, both [samples, length, rows], on `tokens` [samples, length]."""
    greatest = max(1.0, float(expected.abs().max()))
    return Continuity(_loss(tokens, expected), _loss(tokens, logits), float((logits - expected).abs().max()) / greatest)


def _loss(tokens: torch.Tensor, logits: torch.Tensor) -> float:
    """Return the mean cross-entropy of the next token, in nats per token."""
    return float(functional.cross_entropy(logits[:, :-1].flatten(0, 1).double(), tokens[:, 1:].flatten()))
