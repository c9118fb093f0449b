"""Add a range of samples to what a run never trains on (train/skips.json)."""

from __future__ import annotations

from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.skips import Skip, Skips, read_skips, write_skips


def add_skip(
    paths: RunPaths, from_sample: int, to_sample: int, reason: str, *, roll_back: bool = False, by_guard: bool = True
) -> bool:
    """Keep the samples from `from_sample` to below `to_sample` from being trained on, now and after every restart.

    Adding a range again does nothing. `roll_back`: the training goes back to before the range; `by_guard`: no person
    asked for that.

    Returns whether it was added. Raises InputError: not a range.
    """
    if not 0 <= from_sample < to_sample:
        raise InputError(f"{from_sample}:{to_sample} is no range of samples", where=str(paths.skips))
    before = read_skips(paths).skips
    same = [skip for skip in before if (skip.from_sample, skip.to_sample) == (from_sample, to_sample)]
    if any(skip.roll_back or not roll_back for skip in same):
        return False
    skip = Skip(from_sample=from_sample, to_sample=to_sample, reason=reason, roll_back=roll_back, by_guard=by_guard)
    write_skips(paths, Skips(skips=[*before, skip]))
    return True
