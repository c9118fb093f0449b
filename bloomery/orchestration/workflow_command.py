"""Record the command that started a run's newest workflow, so that other programs can show how to resume the run."""

from __future__ import annotations

import shlex
from pathlib import Path

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import BloomeryError
from bloomery.base.typed_command import typed_command
from bloomery.contracts.paths import RunPaths


def record_command(paths: RunPaths) -> None:
    """Record the command line of this process and its working folder."""
    write_json(paths.workflow_command, {"command": typed_command(), "folder": str(Path.cwd())})


def read_command(paths: RunPaths) -> str | None:
    """Return the recorded command, as a user can type it in the current folder; None if no command is recorded."""
    try:
        found = read_json(paths.workflow_command)
        command, folder = str(found["command"]), str(found["folder"])
    except (BloomeryError, KeyError, TypeError):
        return None
    return command if folder == str(Path.cwd()) else f"cd {shlex.quote(folder)} && {command}"
