"""Find the folder to which relative paths in a run's configuration refer."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.errors import BloomeryError
from bloomery.base.json_member import read_member
from bloomery.contracts.paths import RunPaths


def workflow_folder(paths: RunPaths) -> Path:
    """Return the folder in which the run's newest workflow ran.

    Relative paths of sources, tokenizers and earlier runs refer to this folder. If no workflow recorded its folder, or
    if this machine does not have that folder, return the working folder of this process.
    """
    try:
        folder = Path(read_member(paths.workflow_command, "folder", kind=str))
    except BloomeryError:
        return Path.cwd()
    return folder if folder.is_dir() else Path.cwd()
