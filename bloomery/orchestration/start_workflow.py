"""Decide whether the workflow of a run must be started, and start it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base import slurm
from bloomery.base.errors import CheckFailedError, ConfigError, ResourceError, TryAgainError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.workflow_state import WorkflowState, read_workflow
from bloomery.orchestration.run_lock import holder, is_locked
from bloomery.orchestration.stop_mark import is_marked_stopped
from bloomery.orchestration.workflow_end import config_digest

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

_LOCAL_PROFILE = "workflow/profiles/local"


@dataclass(frozen=True)
class Decision:
    """Whether to start a workflow, and why."""

    start: bool
    reason: str
    needs_a_person: bool = False
    """Whether only a person may start the workflow."""
    exit_code: int = 0
    """Exit code of `bloomery run` if it starts no workflow."""


def decide(paths: RunPaths, config: RunConfig, target: str, *, most_failures: int) -> Decision:
    """Decide whether to start the workflow of a run now.

    Args:
        paths: paths of the run.
        config: configuration of the run.
        target: target of the workflow.
        most_failures: number of failed workflows in a row without progress, after which a person must start the next.
    """
    if is_locked(paths.run):
        return Decision(False, f"a workflow works on this run ({holder(paths.run) or 'unknown process'})")
    record = read_workflow(paths)
    if is_marked_stopped(paths) or (record is not None and record.state is WorkflowState.STOPPED):
        return Decision(False, "a person stopped this run", True, TryAgainError.exit_code)
    if record is None:
        return Decision(True, "starting the workflow")
    if record.target != target or record.config_digest != config_digest(config):
        return Decision(True, "starting the workflow, because the configuration or the target has changed")
    if record.state is WorkflowState.FINISHED:
        return Decision(False, f"the workflow finished at {record.ended}")
    if record.state is WorkflowState.FAILED:
        if record.failures >= most_failures:
            reason = f"the workflow failed {record.failures} times in a row without progress"
            return Decision(False, reason, True, CheckFailedError.exit_code)
        return Decision(True, f"starting the workflow again after failure {record.failures} of at most {most_failures}")
    return Decision(True, f"starting the workflow again, because it was killed on {_where(paths)}")


def _where(paths: RunPaths) -> str:
    last = holder(paths.run)
    return last.host if last is not None else socket.gethostname()


def choose_profile(profile: str | None) -> str:
    """Return the Snakemake profile for a workflow in the current folder.

    Args:
        profile: profile that the user named. None for `slurm` if this machine has SLURM, otherwise the local profile.

    Raises:
        ResourceError: the current folder has no Snakefile.
        ConfigError: Snakemake would not find the profile.
    """
    if not Path("Snakefile").is_file():
        raise ResourceError(
            "this folder lacks the file `Snakefile`",
            where=str(Path.cwd()),
            expected="the folder of Bloomery's repository; change to that folder and run the command again",
        )
    if profile is None:
        return "slurm" if slurm.has_slurm() else _LOCAL_PROFILE
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    if not any((folder / profile).is_dir() for folder in (Path(), user / "snakemake", Path("/etc/xdg/snakemake"))):
        raise ConfigError(
            f"no Snakemake profile {profile!r}",
            where="--profile",
            expected=f"slurm, {_LOCAL_PROFILE}, or the folder of another profile",
        )
    return profile


def start_workflow(config: Path, target: str, profile: str, arguments: Sequence[str]) -> int:
    """Run the workflow in the current folder, and return its exit code.

    Args:
        config: YAML file of the run.
        target: target of the workflow.
        profile: Snakemake profile.
        arguments: further arguments of Snakemake.
    """
    command = [sys.executable, "-m", "snakemake", target, "--profile", profile, *arguments, "--configfile", str(config)]
    return subprocess.run(command, check=False).returncode
