"""Copy growing files before a sync, so that their digests, the upload and the Hub's files refer to the same bytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from bloomery.base.atomic import explained
from bloomery.base.errors import InputError
from bloomery.base.unfinished_line import cut_unfinished_line
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import read_segment

LINES = (".jsonl", ".txt")
"""Suffixes of files with lines of text. An unfinished last line is not copied until it is complete."""


def layout(paths: RunPaths) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """Return the sources of each top folder of the logs repository: a folder of the run, and patterns of its files."""
    return {
        # The logs of single ranks (`ranks/`) are not published, because they name machines and folders.
        "logs": (paths.logs, ("*", "tensorboard/**/*")),
        "segments": (paths.segments, ("**/*.json",)),
        "report": (paths.report, ("**/*",)),
        # `config/ingest/` is not published, because it names folders of the user's machine.
        "config": (paths.config, ("*.json",)),
        # Logs of earlier trainings, which a restart from the beginning moved to the archive with their checkpoints.
        "archive": (paths.train / "archive", ("*/logs/*", "*/logs/tensorboard/**/*", "*/history/*.json")),
    }


def chosen(paths: RunPaths) -> Iterator[tuple[str, Path]]:
    """Yield the files of the logs repository in order, each with its path in the repository."""
    for top, (folder, patterns) in layout(paths).items():
        for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
            relative = path.relative_to(folder)
            hidden = any(part.startswith(".") for part in relative.parts)
            # A symbolic link to a file or folder could publish any file of this machine. So only links that lead into
            # this folder or into the run's results are followed.
            foreign = not any(path.resolve().is_relative_to(own.resolve()) for own in (folder, paths.results))
            if not hidden and path.suffix != ".tmp" and path.is_file() and not foreign:
                yield f"{top}/{relative.as_posix()}", path


def training_ended(paths: RunPaths) -> bool:
    """Return whether the training has ended, so that no process writes to its logs.

    finished.json alone does not prove this: it remains while the run trains again with a changed configuration. So
    every segment's file must also exist, and none of them may be newer than finished.json.
    """
    try:
        end = paths.finished.stat().st_mtime_ns
        # The first missing file ends the loop, so a damaged and very large number of segments does no harm.
        numbers = range(1, read_segment(paths.finished).number + 1)
        return all((paths.segments / f"{number}.json").stat().st_mtime_ns <= end for number in numbers)
    except (InputError, OSError):
        return False


def take_snapshot(paths: RunPaths, folder: Path, *, finished: bool) -> dict[str, Path]:
    """Copy the files of the logs repository into `folder`; return the copy of each path in the repository.

    Args:
        paths: the paths of the run.
        folder: folder for the copies; it is deleted and created again.
        finished: whether the training has ended. If so, files are copied to their last byte. Otherwise, files with
            lines of text end after their last complete line.

    Raises:
        ResourceError: `folder` cannot be written.
    """
    copies = {}
    with explained(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, path in chosen(paths):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if _copy(path.resolve(), target, lines=path.suffix in LINES and not finished):
                copies[name] = target
    return copies


def _copy(source: Path, target: Path, *, lines: bool) -> bool:
    """Copy the current content; return False if the file no longer exists (a restarted training moves its logs)."""
    try:
        shutil.copyfile(source, target, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if lines:
        cut_unfinished_line(target)
    return True
