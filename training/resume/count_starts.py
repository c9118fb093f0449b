"""Stop a training whose starts save no new checkpoint. train/starts.json counts starts since the newest checkpoint."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment


class _Starts(BaseModel):
    """Content of train/starts.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    newest_iteration: int | None
    """Iteration of the newest checkpoint. None if there is no checkpoint."""
    starts: int
    """Number of starts in a row with this newest checkpoint."""


def count_start(paths: RunPaths, newest_iteration: int | None, most: int, last: Segment | None) -> None:
    """Count a start. Call this before the processes run, so that every start counts, however it ends.

    Args:
        paths: paths of the run.
        newest_iteration: iteration of the newest checkpoint. None if there is no checkpoint.
        most: largest allowed number of starts in a row without a new checkpoint.
        last: how the last attempt ended, for the error message. None if there was no attempt.

    Raises:
        CheckFailedError: `most` starts in a row saved no new checkpoint. The count is reset, so that a person who has
            fixed the cause can start again.
    """
    before = _read(paths)
    starts = before.starts if before.newest_iteration == newest_iteration else 0
    if starts >= most:
        forget_starts(paths)
        ended = f"; the last attempt ended with status {last.status.value}: {last.message}".rstrip(": ") if last else ""
        raise CheckFailedError(
            f"{starts} starts in a row saved no new checkpoint{ended}",
            where=str(paths.train),
            expected=f"a new checkpoint within {most} starts (training.segment.max_restarts_without_progress); fix the "
            "cause and run the same command again",
        )
    write_json(paths.starts, _Starts(newest_iteration=newest_iteration, starts=starts + 1).model_dump(mode="json"))


def _read(paths: RunPaths) -> _Starts:
    """Return the count so far. A missing or damaged file counts as zero starts, because it must not stop a training."""
    try:
        return _Starts.model_validate(read_json(paths.starts))
    except (InputError, ValidationError):
        return _Starts(newest_iteration=None, starts=0)


def forget_starts(paths: RunPaths) -> None:
    """Reset the count of starts."""
    paths.starts.unlink(missing_ok=True)
