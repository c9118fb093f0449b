"""A snapshot of files that grow: what is digested, what is sent and what the Hub then holds are the same bytes."""

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
"""Suffixes of files that are lines of text; an unfinished last line stays at home until it is whole."""


def layout(paths: RunPaths) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """Top folder in the logs' repository -> (folder of the run, patterns of its files)."""
    return {
        # What each rank says (`ranks/`) stays at home too: it names machines and folders.
        "logs": (paths.logs, ("*", "tensorboard/**/*")),
        "segments": (paths.segments, ("**/*.json",)),
        "report": (paths.report, ("**/*",)),
        # `config/ingest/` stays at home: it names the folders of the user's own machine.
        "config": (paths.config, ("*.json",)),
        # A training that began anew left its logs there, beside its checkpoints.
        "archive": (paths.train / "archive", ("*/logs/*", "*/logs/tensorboard/**/*", "*/history/*.json")),
    }


def chosen(paths: RunPaths) -> Iterator[tuple[str, Path]]:
    """Files that belong into the logs' repository, with their paths there, in order."""
    for top, (folder, patterns) in layout(paths).items():
        for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
            relative = path.relative_to(folder)
            hidden = any(part.startswith(".") for part in relative.parts)
            # A symbolic link may point at anything on this machine.
            if not hidden and path.suffix != ".tmp" and path.is_file() and not path.is_symlink():
                yield f"{top}/{relative.as_posix()}", path


def training_ended(paths: RunPaths) -> bool:
    """Whether the training is over, so that nobody writes to its logs.

    finished.json alone does not say so: when a changed configuration trains again, it stays until the new end. So every
    segment must be there, none of them newer.
    """
    try:
        segments = [paths.segments / f"{n + 1}.json" for n in range(read_segment(paths.finished).number)]
        end = paths.finished.stat().st_mtime_ns
        return all(path.stat().st_mtime_ns <= end for path in segments)
    except (InputError, OSError):
        return False


def take_snapshot(paths: RunPaths, folder: Path, *, finished: bool) -> dict[str, Path]:
    """Copy the files of the logs' repository into `folder`; returns path in the repository -> copy.

    Args:
        paths: the run.
        folder: made anew.
        finished: nobody writes any more, so that files are copied to their last byte; else files of lines end with
            their last whole line.

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
            if _copy(path, target, lines=path.suffix in LINES and not finished):
                copies[name] = target
    return copies


def _copy(source: Path, target: Path, *, lines: bool) -> bool:
    """Copy as much as is there now; False when the file is gone (a training that begins anew moves its logs away)."""
    try:
        shutil.copyfile(source, target, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if lines:
        cut_unfinished_line(target)
    return True
