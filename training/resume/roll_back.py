"""Roll back to a checkpoint from before a problem, and skip the samples at which the problem occurred.

The skipped range is written first, and later checkpoints are moved away second. So an interrupted roll-back can be
completed at the next start. `training.resume.roll_back_to_checkpoint` rolls back to a named checkpoint.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.checkpoint import CheckpointManifest, newest_manifest, readable_checkpoints, step_name
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import saved_stage
from bloomery.contracts.skips import Skip, merged, read_skips
from training.resume.add_skip import add_skip
from training.resume.move_checkpoint import move_away, update_latest
from training.resume.roll_back_to_checkpoint import complete_roll_backs_to_checkpoint, records


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
    checkpoints = list(readable_checkpoints(paths.checkpoints))
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
    left = newest_manifest(paths.checkpoints)
    return RollBack(step_name(left.iteration) if left else None, from_sample, to_sample)


def roll_backs(paths: RunPaths) -> int:
    """Return how many roll-backs the guards of this training made. Roll-backs requested by a person do not count."""
    return sum(skip.roll_back and skip.by_guard for skip in read_skips(paths).skips)


def complete_roll_backs(paths: RunPaths) -> None:
    """Complete every interrupted roll-back.

    Move every checkpoint that was trained on the skipped samples of roll-back n to train/rolled-back/<n>. Roll-backs to
    a named checkpoint are completed first. No two roll-backs of either kind have the same number.
    """
    complete_roll_backs_to_checkpoint(paths)
    behind = [skip for skip in read_skips(paths).skips if skip.roll_back]
    others = records(paths)
    numbers = itertools.islice((number for number in itertools.count(1) if number not in others), len(behind))
    numbered = list(zip(numbers, behind, strict=True))
    moved = False
    for checkpoint in list(readable_checkpoints(paths.checkpoints)):
        found = next(((number, skip) for number, skip in numbered if _trained_on(checkpoint, skip)), None)
        if found is None:
            continue
        move_away(paths, step_name(checkpoint.iteration), found[0], found[1].reason)
        moved = True
    if moved:
        update_latest(paths)


def _trained_on(checkpoint: CheckpointManifest, skip: Skip) -> bool:
    """Whether a checkpoint was saved after the first sample of a range without having skipped the whole range."""
    if checkpoint.consumed_samples <= skip.from_sample:
        return False
    return not any(
        each.from_sample <= skip.from_sample and skip.to_sample <= each.to_sample
        for each in merged(saved_stage(checkpoint).training.skip)
    )
