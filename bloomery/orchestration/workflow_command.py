"""Record the command that started a run's newest workflow, so that other programs can show how to resume the run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import BloomeryError
from bloomery.base.typed_command import typed_command
from bloomery.contracts.paths import RunPaths

if TYPE_CHECKING:
    from bloomery.contracts.stale_artefacts import Stale


def record_command(paths: RunPaths) -> None:
    """Record the command line of this process and its working folder."""
    write_json(paths.workflow_command, {"command": typed_command(), "folder": str(Path.cwd())})


TARGETS = ("all", "corpus", "tokenizer", "index", "train", "export", "publish")
"""Targets of the workflow. A target, if there is one, is the first argument of the command."""


def read_command(paths: RunPaths, target: str | None = None) -> str | None:
    """Return the recorded command, as a user can type it in the current folder; None if no command is recorded.

    With `target`, the command builds this target instead of the recorded one.
    """
    try:
        found = read_json(paths.workflow_command)
        command, folder = str(found["command"]), str(found["folder"])
    except (BloomeryError, KeyError, TypeError):
        return None
    if target is not None:
        try:
            program, *rest = shlex.split(command)
        except ValueError:  # an empty command, or a quote that is not closed
            return None
        options = rest[1:] if rest and rest[0] in TARGETS else rest
        command = shlex.join([program, target, *options])
    return command if folder == str(Path.cwd()) else f"cd {shlex.quote(folder)} && {command}"


def rebuild_command(paths: RunPaths, stale: Mapping[str, Stale]) -> str | None:
    """Return the command that builds all stale artefacts again; None if nothing is stale or no command is recorded."""
    targets = [target for target in TARGETS if target in {each.target for each in stale.values()}]
    return read_command(paths, targets[-1]) if targets else None
