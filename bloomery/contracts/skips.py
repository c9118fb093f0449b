"""train/skips.json: ranges of samples that are not trained on, beside those of the configuration.

A range stays for good, so that a restart leaves out the same samples. All who count samples read it together with
`training.skip`: the training, `bloomery status`, `bloomery trace`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.stages import TrainStage
from bloomery.config.training_loop import SkipRange
from bloomery.contracts.paths import RunPaths


class Skip(SkipRange):
    """One range, and why it is there."""

    reason: str
    roll_back: bool = False
    """Whether the training went back to before the range; False: it was added before the training came there."""
    by_guard: bool = True
    """Whether a guard went back; False: a person asked for it."""


class Skips(BaseModel):
    """All ranges, in the order in which they were added."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    skips: list[Skip] = []


def read_skips(paths: RunPaths) -> Skips:
    """The ranges of a run; none where no file is. Raises InputError when it is damaged."""
    if not paths.skips.exists():
        return Skips()
    try:
        return Skips.model_validate(read_json(paths.skips))
    except ValidationError as error:
        raise InputError(f"not a list of skipped samples: {error}", where=str(paths.skips)) from error


def write_skips(paths: RunPaths, skips: Skips) -> None:
    """Write the ranges atomically."""
    write_json(paths.skips, skips.model_dump(mode="json"))


def merged(ranges: Iterable[SkipRange]) -> list[SkipRange]:
    """The same samples as ranges in ascending order that neither overlap nor touch."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((each.from_sample, each.to_sample) for each in ranges):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return [SkipRange(from_sample=begin, to_sample=end) for begin, end in found]


def effective(stage: TrainStage, paths: RunPaths) -> TrainStage:
    """The stage whose `training.skip` holds every range of the run too, merged. Raises InputError (damaged file)."""
    skip = merged([*stage.training.skip, *read_skips(paths).skips])
    return stage.model_copy(update={"training": stage.training.model_copy(update={"skip": skip})})
