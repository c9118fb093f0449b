"""Stop a chain of starts that comes to nothing: train/starts.json counts those since the last new checkpoint."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment


class _Starts(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    newest_iteration: int | None
    """Of the newest checkpoint; None: there is none."""
    starts: int
    """In a row that found it so."""


def count_start(paths: RunPaths, newest_iteration: int | None, most: int, last: Segment | None) -> None:
    """Count a start before its processes run, so that no kind of death goes uncounted.

    Args:
        paths: of the run.
        newest_iteration: of the newest checkpoint; None: there is none.
        most: starts in a row without a new checkpoint that are allowed.
        last: how the last attempt ended, for the error.

    Raises:
        CheckFailedError: there were that many. The count begins again, for a person who has mended the cause.
    """
    before = _read(paths)
    starts = before.starts if before.newest_iteration == newest_iteration else 0
    if starts >= most:
        forget_starts(paths)
        ended = f"; the last attempt: {last.status.value} {last.message}".rstrip() if last else ""
        raise CheckFailedError(
            f"{starts} starts in a row saved no new checkpoint{ended}",
            where=str(paths.train),
            expected=f"progress within training.segment.max_restarts_without_progress = {most} starts; when the cause "
            "is mended, the same command tries again",
        )
    write_json(paths.starts, _Starts(newest_iteration=newest_iteration, starts=starts + 1).model_dump(mode="json"))


def _read(paths: RunPaths) -> _Starts:
    """The count so far; a damaged file is no reason not to train."""
    try:
        return _Starts.model_validate(read_json(paths.starts))
    except (InputError, ValidationError):
        return _Starts(newest_iteration=None, starts=0)


def forget_starts(paths: RunPaths) -> None:
    """Count from the beginning."""
    paths.starts.unlink(missing_ok=True)
