"""Record the command that started a run's newest workflow, so that other programs can show how to resume the run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import BloomeryError
from bloomery.base.json_member import read_member
from bloomery.base.typed_command import typed_command
from bloomery.contracts.paths import RunPaths

if TYPE_CHECKING:
    from bloomery.contracts.stale_artefacts import Stale


def record_command(paths: RunPaths) -> None:
    """Record the command line of this process, its working folder, and the folder of the run that it builds."""
    record = {"command": typed_command(), "folder": str(Path.cwd()), "run": str(paths.run.absolute())}
    write_json(paths.workflow_command, record)


TARGETS = ("all", "corpus", "tokenizer", "index", "train", "export", "publish")
"""Targets of the workflow. A target, if there is one, is the first argument of the command."""


def read_command(paths: RunPaths, target: str | None = None) -> str | None:
    """Return the recorded command, as a user can type it in the current folder.

    Return None if no command is recorded, or if the recorded command builds a run in another folder, because this run
    is a copy or was moved. With `target`, the command builds this target instead of the recorded one.
    """
    try:
        found = read_json(paths.workflow_command)
        command, folder = str(found["command"]), str(found["folder"])
        if not _builds(paths, found.get("run"), folder):
            return None
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


def _builds(paths: RunPaths, recorded_run: object, folder: str) -> bool:
    """Whether the recorded command builds the run at `paths`.

    Args:
        paths: paths of the run that has the record.
        recorded_run: the recorded folder of the run; None in a record of an earlier version. Then the run must be in
            `folder` and must have the name that its configuration states.
        folder: the recorded working folder of the command.
    """
    try:
        if recorded_run is not None:
            return Path(str(recorded_run)).samefile(paths.run)
        here = paths.run.resolve()
        return here.is_relative_to(Path(folder).resolve()) and here.name == _configured_name(paths, here.name)
    except (OSError, ValueError):  # the folder does not exist, or the text cannot be a path
        return False


def _configured_name(paths: RunPaths, default: str) -> str:
    """Return the name of the run in its configuration; `default` if the configuration cannot be read."""
    try:
        return read_member(paths.config / "publish.json", "name", kind=str)
    except BloomeryError:
        return default


def rebuild_target(stale: Mapping[str, Stale]) -> str | None:
    """Return the target of the workflow that builds all stale artefacts again; None if nothing is stale."""
    targets = [target for target in TARGETS if target in {each.target for each in stale.values()}]
    return targets[-1] if targets else None


def rebuild_command(paths: RunPaths, stale: Mapping[str, Stale]) -> str | None:
    """Return the command that builds all stale artefacts again.

    Return None if nothing is stale, or if no command is known (`read_command`).
    """
    target = rebuild_target(stale)
    return None if target is None else read_command(paths, target)
