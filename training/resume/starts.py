"""Stop a chain of starts that comes to nothing: train/starts.json counts those since the last new checkpoint."""

from __future__ import annotations

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import CheckFailedError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment


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
    before = read_json(paths.starts) if paths.starts.exists() else {}
    starts = before["starts"] if before.get("newest_iteration", -1) == newest_iteration else 0
    if starts >= most:
        forget_starts(paths)
        ended = f"; the last attempt: {last.status.value} {last.message}".rstrip() if last else ""
        raise CheckFailedError(
            f"{starts} starts in a row saved no new checkpoint{ended}",
            where=str(paths.train),
            expected=f"progress within training.segment.max_restarts_without_progress = {most} starts; when the cause "
            "is mended, the same command tries again",
        )
    write_json(paths.starts, {"newest_iteration": newest_iteration, "starts": starts + 1})


def forget_starts(paths: RunPaths) -> None:
    """Count from the beginning."""
    paths.starts.unlink(missing_ok=True)
