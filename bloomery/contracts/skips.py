"""Define train/skips.json: ranges of samples that are not trained on, in addition to those of the configuration.

A range is never removed, so a restart skips the same samples. Everything that counts samples reads these ranges
together with `training.skip`: the training, `bloomery status` and `bloomery trace`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values
from bloomery.config.stages import TrainStage
from bloomery.config.training_loop import SkipRange
from bloomery.contracts.paths import RunPaths


class Skip(SkipRange):
    """One range of skipped samples, and the reason for it."""

    reason: str
    roll_back: bool = False
    """Whether the training returned to a checkpoint before the range.

    It is False if the range was added before the training reached it.
    """
    by_guard: bool = True
    """Whether a guard requested the roll-back; False if a user requested it."""


class Skips(BaseModel):
    """All ranges of skipped samples, in the order in which they were added."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    skips: list[Skip] = []


def read_skips(paths: RunPaths) -> Skips:
    """Return the skipped ranges of a run. There are none if train/skips.json does not exist.

    Raises:
        InputError: the file is damaged.
    """
    if not paths.skips.exists():
        return Skips()
    try:
        return Skips.model_validate(read_json(paths.skips))
    except ValidationError as error:
        raise InputError(
            f"not a list of skipped samples: {wrong_values(error, Skips)}",
            where=str(paths.skips),
            expected="the file as the training or `bloomery train roll-back` wrote it; correct or restore it",
        ) from error


def write_skips(paths: RunPaths, skips: Skips) -> None:
    """Write the ranges atomically."""
    write_json(paths.skips, skips.model_dump(mode="json"))


def merged(ranges: Iterable[SkipRange]) -> list[SkipRange]:
    """Return ranges in ascending order that cover the same samples and neither overlap nor touch."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((each.from_sample, each.to_sample) for each in ranges):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return [SkipRange(from_sample=begin, to_sample=end) for begin, end in found]


def effective(stage: TrainStage, paths: RunPaths) -> TrainStage:
    """Return a stage whose `training.skip` also contains every range of the run, merged.

    Raises:
        InputError: the run's file of ranges is damaged.
    """
    skip = merged([*stage.training.skip, *read_skips(paths).skips])
    return stage.model_copy(update={"training": stage.training.model_copy(update={"skip": skip})})
