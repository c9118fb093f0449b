"""Explain why a training cannot resume with a changed configuration, and print the YAML of each way to proceed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.checkpoint import CheckpointManifest, step_name
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import Difference, Policy

CONTINUE, RESTART = {"training.on_change": "continue"}, {"training.on_change": "restart"}


def boundary_refusal(paths: RunPaths, newest: CheckpointManifest, changes: Sequence[Difference]) -> CheckFailedError:
    """Return the error for changed keys whose policy is `boundary`, for `on_change: refuse`."""
    kept = (
        f"keep the training: it resumes from {step_name(newest.iteration)}, and the new values apply from iteration "
        f"{newest.iteration + 1} on"
    )
    return CheckFailedError(
        f"configuration keys changed since {step_name(newest.iteration)}: {'; '.join(map(str, changes))}",
        where=str(paths.checkpoints),
        expected="the old values, another name of the run, or one of these choices in the run's YAML"
        + _choice(kept, CONTINUE)
        + _choice(_restart(paths, newest), RESTART),
    )


def never_refusal(
    paths: RunPaths, newest: CheckpointManifest, changes: Sequence[Difference], phrases: Sequence[str], keep: str
) -> CheckFailedError:
    """Return the error for changes with which the checkpoint is not valid.

    Args:
        paths: paths of the run.
        newest: manifest of the newest checkpoint.
        changes: all changed configuration keys.
        phrases: phrases that describe the changes of keys, tokenizer and samples.
        keep: phrase that says what a resume needs.
    """
    needed: dict[str, Any] = {each.key: each.before for each in changes if each.policy is Policy.NEVER}
    if any(each.policy is Policy.BOUNDARY for each in changes):
        needed |= CONTINUE
    kept = f"keep the training: with {keep} it resumes from {step_name(newest.iteration)}"
    return CheckFailedError(
        f"cannot resume from {step_name(newest.iteration)} with these changes: {'; '.join(phrases)}",
        where=str(paths.checkpoints),
        expected=f"{keep}; or another name of the run, or one of these choices in the run's YAML"
        + (_choice(kept, needed) if needed else "")
        + _choice(_restart(paths, newest), RESTART),
    )


def archive_folder(paths: RunPaths, newest: CheckpointManifest) -> Path:
    """Return the folder to which a restart moves the old training.

    A restart moves the checkpoints last. So an archive with checkpoints is complete, and the next archive gets another
    name. An archive without checkpoints was interrupted, and the next restart completes it.
    """
    number, name = 1, f"{newest.identity[:12]}-step{newest.iteration}"
    folder = paths.train / "archive" / name
    while (folder / paths.checkpoints.name).exists():
        number += 1
        folder = paths.train / "archive" / f"{name}-{number}"
    return folder


def _restart(paths: RunPaths, newest: CheckpointManifest) -> str:
    return (
        "start again: a new training begins at iteration 0, and the old one with its checkpoints moves to "
        f"{archive_folder(paths, newest)}"
    )


def _choice(what: str, values: dict[str, Any]) -> str:
    """Return a choice and the YAML that makes it. Lines are indented, so that they count as part of the error message
    (`bloomery.base.failure_cause`)."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        section = nested
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    lines = yaml.safe_dump(nested, sort_keys=False, allow_unicode=True).splitlines()
    return "".join([f"\n  {what}:", *(f"\n    {line}" for line in lines)])
