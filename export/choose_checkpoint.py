"""Choose the checkpoint to export. `bloomery.checkpoint` reads it."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import checked_name, refuse_outside
from bloomery.contracts.segment import SegmentStatus, read_segment


def choose_checkpoint(paths: RunPaths, name: str | None) -> Path:
    """Return the folder of the checkpoint `name`, or of the last checkpoint of a finished training if `name` is None.

    Raises:
        CheckFailedError: the training has not finished and no checkpoint is named.
        InputError: the checkpoint does not exist, or the name leads out of the run's folder of checkpoints.
    """
    if name is None:
        by_hand = "a finished training, or the name of a checkpoint, such as --checkpoint step00000100"
        if not paths.finished.is_file():
            raise CheckFailedError("the training has not finished", where=str(paths.finished), expected=by_hand)
        segment = read_segment(paths.finished)
        if segment.status is not SegmentStatus.FINISHED or segment.checkpoint is None:
            raise CheckFailedError(
                f"the training has not finished: segment {segment.number} ended with status {segment.status} at "
                f"iteration {segment.iteration} of {segment.total_iterations}",
                where=str(paths.finished),
                expected=by_hand,
            )
        name = segment.checkpoint
    try:
        folder = paths.checkpoints / checked_name(name)
    except ValueError as error:
        raise InputError(
            f"{name!r} is not the name of a checkpoint", where="--checkpoint", expected=str(error)
        ) from error
    if not folder.is_dir():
        raise InputError(
            "no such checkpoint",
            where=str(folder),
            expected="--checkpoint with the name of a folder in train/checkpoints",
        )
    refuse_outside(paths.checkpoints, folder)
    return folder
