"""Prove that the written model computes what the checkpoint computes, with the weights of one layer in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.progress import say
from bloomery.checkpoint.reference import Reference, read_reference
from bloomery.checkpoint.weights import Checkpoint
from bloomery.contracts.checkpoint import REFERENCE_NAME, lacks_reference, verify_file
from export.proof.comparison import Comparison, check, compare, with_greedy_texts
from export.proof.first_difference import first_difference
from export.proof.split_model import Pieces, SplitModel
from export.proof.written_model import WrittenModel
from export.proof.written_weights import WeightFiles

if TYPE_CHECKING:
    from bloomery.spec.transformers_families.family import Family


@dataclass(frozen=True)
class Written:
    """The written model and what is needed to compute with it."""

    folder: Path
    family: Family
    rows: int
    """Rows of the exported embedding."""
    vocabulary: int
    """Entries of the tokenizer."""
    parameters: int
    """Number of parameters."""
    rounded_to: str | None = None
    """Data type of the training's weights if the written ones are their fp32 master weights. The proof then rounds the
    written weights to this type, because the reference of the checkpoint was computed with the rounded weights."""
    has_tokenizer: bool = True
    """Whether the folder has a tokenizer. Greedy texts are compared only with a tokenizer."""


def prove(
    written: Written, pieces: Pieces, reference: Reference, tolerance: float, *, failed: Path, hint: str | None = None
) -> Comparison:
    """Compare the written model with the reference of the checkpoint and with the checkpoint's pieces.

    Args:
        written: the written model.
        pieces: the checkpoint's weights on each tensor rank.
        reference: the reference of the checkpoint.
        tolerance: largest allowed difference of a logit, divided by the largest logit.
        failed: folder that a rejected model is renamed to, for the error message.
        hint: a likely reason of a difference.

    Raises:
        CheckFailedError: transformers cannot read the written files, or the logits or the greedy texts differ. If the
            logits differ, the error names the first module that differs.
    """
    tokenizer, config = _read(written)
    say("proof: compare the logits of the written model with those of the checkpoint")
    weights = WeightFiles(written.folder, written.family, written.rounded_to)
    model = WrittenModel(weights, config, written.family, pieces.parameters, pieces.model.heads)
    split = SplitModel(pieces)
    comparison = compare(model, reference, written.rows, written.vocabulary, str(written.folder))
    try:
        check(comparison, tolerance, where=str(failed), hint=hint)
    except CheckFailedError as error:
        found = first_difference(model, split, comparison.worst_sample, tolerance)
        where = (
            f"the first module whose output differs from that of the checkpoint's weights is {found.name} (by "
            f"{found.difference:.3g} of its largest element)"
            if found
            else "every module computes the same output as with the checkpoint's weights, so the reference logits "
            "belong to other weights"
        )
        raise CheckFailedError(f"{error.what}; {where}", where=error.where, expected=error.expected) from error
    if tokenizer is None:
        return comparison
    say("proof: compare greedy texts with those of the checkpoint's weights")
    return with_greedy_texts(
        comparison,
        model,
        split,
        reference,
        tokenizer,
        parameters=written.parameters,
        sequence_length=pieces.model.sequence_length,
        tolerance=tolerance,
        where=str(failed),
    )


def checkpoint_reference(checkpoint: Checkpoint) -> Reference:
    """Read the reference of a checkpoint.

    Raises:
        CheckFailedError: the checkpoint was repaired, and no training has loaded it since.
        InputError: the file is damaged or does not fit the network.
    """
    manifest = checkpoint.manifest
    if lacks_reference(manifest):
        raise CheckFailedError(
            "this checkpoint was repaired, and its reference logits have not been computed since",
            where=str(checkpoint.folder),
            expected="a checkpoint that the training has loaded after the repair; run the workflow again, because the "
            "training computes the logits when it starts",
        )
    path = verify_file(checkpoint.folder, manifest, REFERENCE_NAME)
    reference = read_reference(path, manifest.vocabulary_size)
    if reference.logits.shape[-1] != manifest.vocabulary_rows:
        raise InputError(
            f"the shapes of the reference logits and of the embedding do not match: {reference.logits.shape[-1]} and "
            f"{manifest.vocabulary_rows} rows",
            where=str(path),
            expected="logits of every row of the embedding; export another checkpoint (--checkpoint)",
        )
    return reference


def _read(written: Written) -> tuple[Any, Any]:
    """Return the tokenizer, or None, and the configuration of the written model, as transformers reads them."""
    from transformers import AutoConfig, AutoTokenizer

    # With `trust_remote_code=False`, transformers does not ask on the terminal either whether to run such code.
    options = {"local_files_only": True, "trust_remote_code": False}
    with _loading(written.folder):
        config = AutoConfig.from_pretrained(written.folder, **options)
        return AutoTokenizer.from_pretrained(written.folder, **options) if written.has_tokenizer else None, config


@contextlib.contextmanager
def _loading(folder: Path) -> Iterator[None]:
    """Turn any error of transformers into a CheckFailedError about the exported model."""
    try:
        yield
    except Exception as error:  # transformers raises errors of many types for files that it cannot read
        raise CheckFailedError(
            "transformers cannot load the exported model or its tokenizer",
            where=str(folder),
            expected="a tokenizer_config.json as `bloomery tokenizer` writes it, and the transformers version of "
            "requirements.lock; restore the run's tokenizer folder and export again",
        ) from error
