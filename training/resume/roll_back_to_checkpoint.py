"""Roll back to a named checkpoint, and skip no samples.

The record train/rolled-back/<n>/roll-back.json is written first. Then the newer checkpoints move to the folder of this
record. Therefore, the next start can complete an interrupted roll-back.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values
from bloomery.contracts.checkpoint import read_checkpoint, step_folders
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import SafeName
from bloomery.contracts.skips import read_skips
from training.resume.move_checkpoint import move_away, update_latest

RECORD_NAME = "roll-back.json"


class RollBackRecord(BaseModel):
    """Content of train/rolled-back/<n>/roll-back.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint: SafeName
    """Checkpoint to which the training returned."""
    reason: str
    moved: list[SafeName]
    """Names of the checkpoints that the roll-back moves to the folder of this file."""
    completed: bool = False
    """Whether all these checkpoints have moved."""


def roll_back_to_checkpoint(paths: RunPaths, name: str, reason: str) -> list[str]:
    """Move all checkpoints that are newer than `name` away, and return their names.

    The training then resumes from `name` and trains on the same samples again. Call this function from one process
    only, after `training.resume.roll_back.complete_roll_backs`, and while no process trains or saves.

    Raises:
        InputError: the checkpoint `name` does not exist or is damaged.
    """
    names = [path.name for path in step_folders(paths.checkpoints)]
    if name not in names:
        raise InputError(
            f"no checkpoint {name}",
            where=str(paths.checkpoints),
            expected=f"--to-checkpoint with the name of a checkpoint: {', '.join(names) or 'this run has none yet'}",
        )
    read_checkpoint(paths.checkpoints / name)
    newer = [each for each in names if each > name]
    if newer:
        # Roll-backs that skip samples take the lowest numbers without a record. The new number must be above these.
        with_skips = sum(skip.roll_back for skip in read_skips(paths).skips)
        number = 1 + max([with_skips + len(records(paths)), *_numbers(paths)])
        _write(paths, number, RollBackRecord(checkpoint=name, reason=reason, moved=newer))
        complete_roll_backs_to_checkpoint(paths)
    return newer


def complete_roll_backs_to_checkpoint(paths: RunPaths) -> None:
    """Complete every roll-back to a named checkpoint that was interrupted.

    Completed roll-backs are left unchanged, because the training saves new checkpoints with the names of the moved
    ones.

    Raises:
        InputError: a record is damaged.
    """
    for number, record in records(paths).items():
        if record.completed:
            continue
        for name in record.moved:
            if (paths.checkpoints / name).exists():
                move_away(paths, name, number, record.reason)
        update_latest(paths)
        _write(paths, number, record.model_copy(update={"completed": True}))


def records(paths: RunPaths) -> dict[int, RollBackRecord]:
    """Return the records of all roll-backs to a named checkpoint, by number.

    Raises:
        InputError: a record is damaged.
    """
    found = {}
    for number in _numbers(paths):
        path = paths.rolled_back / str(number) / RECORD_NAME
        if not path.exists():
            continue
        try:
            found[number] = RollBackRecord.model_validate(read_json(path))
        except ValidationError as error:
            raise InputError(
                f"not the record of a roll-back: {wrong_values(error, RollBackRecord)}",
                where=str(path),
                expected="the file as `bloomery train roll-back` wrote it; restore the file, or move it away",
            ) from error
    return found


def _numbers(paths: RunPaths) -> list[int]:
    """Return the numbers of the folders in train/rolled-back, in ascending order."""
    if not paths.rolled_back.is_dir():
        return []
    return sorted(int(path.name) for path in paths.rolled_back.iterdir() if path.name.isdecimal())


def _write(paths: RunPaths, number: int, record: RollBackRecord) -> None:
    write_json(paths.rolled_back / str(number) / RECORD_NAME, record.model_dump(mode="json"))
