"""Before a segment starts: refuse a run in which a folder stands where a file should be, or a file for a folder."""

from __future__ import annotations

import os

from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SAVE_FILE, STOP_FILE


def check_folders(paths: RunPaths) -> None:
    """Look before any process starts: checkpoints that are no folder would be taken for none.

    Raises:
        InputError: one is of the wrong kind.
    """
    folders = (
        *(paths.checkpoints, paths.control, paths.incidents, paths.rolled_back),
        *(paths.segments, paths.segments / "history"),
        *(paths.logs, paths.logs / "ranks", paths.logs / "tensorboard"),
    )
    files = (
        *(paths.logs / "metrics.jsonl", paths.logs / "main_log.txt", paths.skips, paths.starts),
        *(paths.control / STOP_FILE, paths.control / SAVE_FILE),
    )
    again = "move it away and run the same command again"
    for path in folders:
        if os.path.lexists(path) and not path.is_dir():
            raise InputError("is no folder", where=str(path), expected=f"a folder, or nothing: {again}")
    for path in files:
        if path.is_dir():
            raise InputError("is a folder", where=str(path), expected=f"a file, or nothing: {again}")
