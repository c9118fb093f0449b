"""Add a range to the samples that a run skips (train/skips.json)."""

from __future__ import annotations

from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.skips import Skip, Skips, read_skips, write_skips


def add_skip(
    paths: RunPaths, from_sample: int, to_sample: int, reason: str, *, roll_back: bool = False, by_guard: bool = True
) -> bool:
    """Skip the samples [from_sample, to_sample) now and after every restart.

    Adding the same range again does nothing.

    Args:
        paths: paths of the run.
        from_sample: first sample of the range.
        to_sample: first sample after the range.
        reason: reason to record with the range.
        roll_back: whether the training must roll back to a checkpoint from before the range.
        by_guard: whether a guard requested the roll-back. False if a person did.

    Returns:
        Whether the range was added.

    Raises:
        InputError: the range is not valid.
    """
    if not 0 <= from_sample < to_sample:
        raise InputError(
            f"{from_sample}:{to_sample} is not a valid range of samples",
            where=str(paths.skips),
            expected="a first sample of at least 0 that is below the end of the range",
        )
    before = read_skips(paths).skips
    same = [skip for skip in before if (skip.from_sample, skip.to_sample) == (from_sample, to_sample)]
    if any(skip.roll_back or not roll_back for skip in same):
        return False
    skip = Skip(from_sample=from_sample, to_sample=to_sample, reason=reason, roll_back=roll_back, by_guard=by_guard)
    write_skips(paths, Skips(skips=[*before, skip]))
    return True
