"""Go back to a checkpoint before something went wrong, and leave its samples out.

The range is written first, then the checkpoints behind it are set aside: a roll-back that is cut off in between is
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
    """What a roll-back did."""

    checkpoint: str | None
    """The newest checkpoint now; None: training begins again, for there was none yet."""
    from_sample: int
    """First sample that is skipped: a later one than asked for, where no checkpoint before that is kept."""
    to_sample: int


def roll_back(paths: RunPaths, from_sample: int, to_sample: int, reason: str, *, by_guard: bool = True) -> RollBack:
    """Skip the samples from `from_sample` to below `to_sample`, and set aside the checkpoints that saw them.

    Where the checkpoints before `from_sample` are gone, the oldest one within the range is taken, and the samples from
    there on are skipped: never is a training begun again that has a checkpoint from before `to_sample`.

    One process calls it, while none trains on or saves. `by_guard`: no person asked for it.

    Raises:
        CheckFailedError: every checkpoint was saved after the whole range was trained on.
    """
    checkpoints = list(_readable(paths))
    before = [each for each in checkpoints if each.consumed_samples <= from_sample]
    within = [each for each in checkpoints if from_sample < each.consumed_samples < to_sample]
    if checkpoints and not (before or within):
        raise CheckFailedError(
            f"no checkpoint from before sample {to_sample} is kept; the oldest is "
            f"{step_name(checkpoints[-1].iteration)}",
            where=str(paths.checkpoints),
            expected="a larger training.checkpoint.keep_last, so that one is left to go back to",
        )
    if not before and within:
        from_sample = within[-1].consumed_samples
    add_skip(paths, from_sample, to_sample, reason, roll_back=True, by_guard=by_guard)
    complete_roll_backs(paths)
    left = next(_readable(paths), None)
    return RollBack(step_name(left.iteration) if left else None, from_sample, to_sample)


def roll_backs(paths: RunPaths) -> int:
    """How often a guard of this training went back; what a person asked for is not held against it."""
    return sum(skip.roll_back and skip.by_guard for skip in read_skips(paths).skips)


def complete_roll_backs(paths: RunPaths) -> None:
    """Set aside every checkpoint that was trained on samples of a roll-back."""
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
        say(f"checkpoint {name} is set aside in {folder}: {behind[number - 1].reason}")
        moved = True
    if moved:
        left, latest = next(_readable(paths), None), paths.checkpoints / LATEST_NAME
        if left is None:
            latest.unlink(missing_ok=True)
        else:
            write_text(latest, step_name(left.iteration) + "\n")


def _reopen(paths: RunPaths) -> None:
    """A training that had finished goes on: its last segment is to be run again."""
    for path in (*paths.segments.glob("[0-9]*.json"), paths.finished):
        if path.exists() and read_segment(path).status is SegmentStatus.FINISHED:
            path.unlink()


def _trained_on(checkpoint: CheckpointManifest, skip: Skip) -> bool:
    """Whether a checkpoint came behind the first sample of a range without having skipped it."""
    if checkpoint.consumed_samples <= skip.from_sample:
        return False
    return not any(
        each.from_sample <= skip.from_sample and skip.to_sample <= each.to_sample
        for each in merged(saved_stage(checkpoint).training.skip)
    )


def _readable(paths: RunPaths) -> Iterator[CheckpointManifest]:
    """Manifests of the checkpoints, newest first; one whose manifest is damaged is nothing to go back to."""
    for folder in step_folders(paths.checkpoints):
        try:
            yield read_checkpoint(folder)
        except InputError:
            continue


def _free(path: Path) -> Path:
    """`path`, or with a number behind it where a checkpoint of that name was set aside before."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found
