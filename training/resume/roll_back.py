"""Roll back to a checkpoint from before a problem, and skip the samples at which the problem occurred.

The skipped range is written first, and later checkpoints are moved away second. So an interrupted roll-back can be
completed at the next start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder, write_text
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.progress import say
from bloomery.contracts.checkpoint import (
    LATEST_NAME,
    CheckpointManifest,
    read_checkpoint,
    step_folders,
    step_name,
)
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus, read_segment
from bloomery.contracts.skips import Skip, merged, read_skips
from training.resume.add_skip import add_skip
from training.resume.policy import saved_stage


@dataclass(frozen=True)
class RollBack:
    """Result of a roll-back."""

    checkpoint: str | None
    """Name of the newest remaining checkpoint. None if there was no checkpoint, so training restarts."""
    from_sample: int
    """First skipped sample. It is later than requested if no checkpoint from before the requested sample exists."""
    to_sample: int
    """First sample after the skipped range."""


def roll_back(paths: RunPaths, from_sample: int, to_sample: int, reason: str, *, by_guard: bool = True) -> RollBack:
    """Skip the samples [from_sample, to_sample), and move away the checkpoints that were trained on these samples.

    If no checkpoint from before `from_sample` exists, roll back to the oldest checkpoint within the range, and skip
    only the samples after it. So the training restarts from the beginning only if it has no checkpoint at all.

    Only one process may call this function, while no process trains or saves. `by_guard` is whether a guard, and not a
    person, requested the roll-back.

    Raises:
        CheckFailedError: every checkpoint was saved after the whole range was trained on.
    """
    checkpoints = list(_readable(paths))
    before = [each for each in checkpoints if each.consumed_samples <= from_sample]
    within = [each for each in checkpoints if from_sample < each.consumed_samples < to_sample]
    if checkpoints and not (before or within):
        raise CheckFailedError(
            f"no checkpoint from before sample {to_sample} exists; the oldest checkpoint is "
            f"{step_name(checkpoints[-1].iteration)}",
            where=str(paths.checkpoints),
            expected="a checkpoint from before that sample; nothing was rolled back; to keep more checkpoints from now "
            "on, set training.checkpoint.keep_last to a larger number",
        )
    if not before and within:
        from_sample = within[-1].consumed_samples
    add_skip(paths, from_sample, to_sample, reason, roll_back=True, by_guard=by_guard)
    complete_roll_backs(paths)
    left = next(_readable(paths), None)
    return RollBack(step_name(left.iteration) if left else None, from_sample, to_sample)


def roll_backs(paths: RunPaths) -> int:
    """Return how many roll-backs the guards of this training made. Roll-backs requested by a person do not count."""
    return sum(skip.roll_back and skip.by_guard for skip in read_skips(paths).skips)


def complete_roll_backs(paths: RunPaths) -> None:
    """Move every checkpoint that was trained on the skipped samples of roll-back n to train/rolled-back/<n>."""
    behind = [skip for skip in read_skips(paths).skips if skip.roll_back]
    moved = False
    for checkpoint in list(_readable(paths)):
        number = next((n for n, skip in enumerate(behind, start=1) if _trained_on(checkpoint, skip)), None)
        if number is None:
            continue
        _reopen(paths)
        name, folder = step_name(checkpoint.iteration), paths.rolled_back / str(number)
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            (paths.checkpoints / name).rename(_free(folder / name))
            fsync_folder(paths.checkpoints)
        say(f"a roll-back moved checkpoint {name} to {folder}; reason: {behind[number - 1].reason}")
        moved = True
    if moved:
        left, latest = next(_readable(paths), None), paths.checkpoints / LATEST_NAME
        if left is None:
            latest.unlink(missing_ok=True)
        else:
            write_text(latest, step_name(left.iteration) + "\n")


def _reopen(paths: RunPaths) -> None:
    """Remove the files of a finished segment, so that a training that had finished runs its last segment again."""
    for path in (*paths.segments.glob("[0-9]*.json"), paths.finished):
        if path.exists() and read_segment(path).status is SegmentStatus.FINISHED:
            path.unlink()


def _trained_on(checkpoint: CheckpointManifest, skip: Skip) -> bool:
    """Whether a checkpoint was saved after the first sample of a range without having skipped the whole range."""
    if checkpoint.consumed_samples <= skip.from_sample:
        return False
    return not any(
        each.from_sample <= skip.from_sample and skip.to_sample <= each.to_sample
        for each in merged(saved_stage(checkpoint).training.skip)
    )


def _readable(paths: RunPaths) -> Iterator[CheckpointManifest]:
    """Yield the manifests of the checkpoints, newest first. Checkpoints with a damaged manifest are skipped."""
    for folder in step_folders(paths.checkpoints):
        try:
            yield read_checkpoint(folder)
        except InputError:
            continue


def _free(path: Path) -> Path:
    """Return `path`, or `path` with a number appended if it already exists."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found
