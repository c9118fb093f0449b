"""Move checkpoints of a run to another folder. Only one process may do this, and no process may train or save then."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder, write_text
from bloomery.base.progress import say
from bloomery.contracts.checkpoint import LATEST_NAME, newest_manifest, step_name
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus, read_segment


def move_away(paths: RunPaths, name: str, number: int, reason: str) -> None:
    """Move a checkpoint to the folder of roll-back `number`."""
    reopen(paths)
    folder = paths.rolled_back / str(number)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (paths.checkpoints / name).rename(free_path(folder / name))
        fsync_folder(paths.checkpoints)
    say(f"a roll-back moved checkpoint {name} to {folder}; reason: {reason}")


def update_latest(paths: RunPaths) -> None:
    """Write the name of the newest remaining checkpoint to the file `latest`."""
    left, latest = newest_manifest(paths.checkpoints), paths.checkpoints / LATEST_NAME
    if left is None:
        latest.unlink(missing_ok=True)
    else:
        write_text(latest, step_name(left.iteration) + "\n")


def reopen(paths: RunPaths) -> None:
    """Remove the files of a finished segment, so that a training that had finished runs its last segment again."""
    for path in (*paths.segments.glob("[0-9]*.json"), paths.finished):
        if path.exists() and read_segment(path).status is SegmentStatus.FINISHED:
            path.unlink()


def free_path(path: Path) -> Path:
    """Return `path`, or `path` with a number appended if it already exists."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found
