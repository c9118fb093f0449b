"""Check before a segment starts that a run's folders are folders and that its files are files."""

from __future__ import annotations

import os

from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SAVE_FILE, STOP_FILE


def check_folders(paths: RunPaths) -> None:
    """Check the folders and files of the run before any process starts.

    For example, a file named `checkpoints` would look like a training without checkpoints.

    Raises:
        InputError: a file has the name of a folder, or a folder has the name of a file.
    """
    folders = (
        *(paths.checkpoints, paths.control, paths.incidents, paths.rolled_back, paths.before_repair, paths.preflight),
        *(paths.segments, paths.segments / "history"),
        *(paths.logs, paths.logs / "ranks", paths.logs / "tensorboard"),
    )
    files = (
        *(paths.logs / "metrics.jsonl", paths.logs / "main_log.txt", paths.skips, paths.starts, paths.excluded_nodes),
        *(paths.control / STOP_FILE, paths.control / SAVE_FILE),
    )
    again = "away and run the same command again"
    for path in folders:
        if os.path.lexists(path) and not path.is_dir():
            raise InputError(
                "this file has the name of a folder of the run",
                where=str(path),
                expected=f"a folder, or nothing; move this file {again}",
            )
    for path in files:
        if path.is_dir():
            raise InputError(
                "this folder has the name of a file of the run",
                where=str(path),
                expected=f"a file, or nothing; move this folder {again}",
            )
