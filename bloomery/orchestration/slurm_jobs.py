"""Handle the SLURM jobs that earlier workflows of a run left in the queue, and prepare the jobs' shell and token.

If a workflow is killed, Snakemake's SLURM executor does not take over its jobs: the next workflow submits them again. A
new training segment waits for a training job that is still alive. Other jobs are cancelled. Otherwise an old job and
its repetition would both write the same file, which does no harm but wastes time.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError
from bloomery.base.progress import say
from bloomery.config.site import JobTarget, Site
from bloomery.contracts.paths import RunPaths

_REMEMBERED = 20
_TOKEN_PATH = "HF_TOKEN_PATH"
_LONGEST_CANCEL_SECONDS = 180.0
_CANCEL_POLL_SECONDS = 1.0
TRAINING_RULE = "train_segment"
"""Name of the rule whose jobs train."""


def remember_workflow(paths: RunPaths, snakemake_logs: Iterable[Path]) -> None:
    """Record the name that the executor gives to all jobs of this workflow, read from Snakemake's own log."""
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in snakemake_logs)
    if found := re.search(r"SLURM run ID: (\S+)", text):
        paths.slurm_runs.parent.mkdir(parents=True, exist_ok=True)
        with paths.slurm_runs.open("a", encoding="utf-8") as handle:
            handle.write(found.group(1) + "\n")


def workflow_names(paths: RunPaths) -> list[str]:
    """Return the job names of this run's latest workflows, newest last."""
    try:
        return paths.slurm_runs.read_text(encoding="utf-8").split()[-_REMEMBERED:]
    except FileNotFoundError:
        return []


def jobs_alive(paths: RunPaths) -> list[slurm.QueuedJob]:
    """Return the jobs of this run that are running or pending.

    Raises:
        TryAgainError: the scheduler does not answer.
    """
    names = workflow_names(paths)
    return [job for job in slurm.queue(names=names) if job.is_alive] if names and slurm.has_slurm() else []


def training_dependency(paths: RunPaths) -> str | None:
    """Return the sbatch dependency of the next segment: it starts after every live training job of this run.

    Return None if no training job is alive or the scheduler does not answer.
    """
    try:
        alive = [job.job for job in jobs_alive(paths) if job.rule == TRAINING_RULE]
    except BloomeryError as error:
        say(
            f"cannot list the SLURM jobs of this run ({error}); only the lock of the training, the file train/lease, "
            "prevents two trainings of this run at the same time"
        )
        return None
    return "afterany:" + ":".join(alive) if alive else None


def end_data_jobs(paths: RunPaths) -> bool:
    """Cancel the jobs of earlier workflows, except training, and wait until they are gone.

    Return whether any job was cancelled. A cancelled job removes its incomplete outputs, so the graph of jobs must be
    built again afterwards.
    """
    cancelled: list[str] = []
    deadline = time.monotonic() + _LONGEST_CANCEL_SECONDS
    try:
        while left := [job.job for job in jobs_alive(paths) if job.rule != TRAINING_RULE]:
            if not cancelled:
                cancelled = left
                say(f"cancelling jobs that an earlier workflow left in the queue of SLURM: {' '.join(left)}")
                slurm.call("scancel", *left)
            if time.monotonic() > deadline:
                say(
                    f"cancelled jobs are still in the queue of SLURM after {_LONGEST_CANCEL_SECONDS:.0f} s: "
                    f"{' '.join(left)}; this workflow starts without waiting longer"
                )
                break
            time.sleep(_CANCEL_POLL_SECONDS)
    except BloomeryError as error:
        say(f"cannot list or cancel the SLURM jobs of an earlier workflow, so some may still run: {error}")
    return bool(cancelled)


def start_again() -> None:
    """Replace this process by the same program with the same arguments."""
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def online_target(site: Site) -> JobTarget | None:
    """Return the SLURM settings of jobs that use the Hub; None if these jobs run on the workflow's own machine.

    If HF_TOKEN is set, they always run on the workflow's own machine, because that token is not passed to SLURM jobs.
    Jobs on other machines use the token of `hf auth login`.
    """
    return None if os.environ.get("HF_TOKEN") else site.internet


def hide_token() -> None:
    """Keep the Hub token out of the environment that sbatch passes to jobs and that SLURM stores in files.

    The token moves into an anonymous file in memory. Programs on this machine can read it while this process lives.
    """
    token = os.environ.pop("HF_TOKEN", None)
    os.environ.pop("HUGGING_FACE_HUB_TOKEN", None)
    if token:
        descriptor = os.memfd_create("hub-token")
        os.write(descriptor, token.encode())
        os.environ[_TOKEN_PATH] = f"/proc/{os.getpid()}/fd/{descriptor}"


def forget_hidden_token() -> None:
    """In a job, remove the path of the token's file in memory from the environment.

    That file exists only on the workflow's machine.
    """
    if os.environ.get(_TOKEN_PATH, "").startswith("/proc/"):
        del os.environ[_TOKEN_PATH]


_PRIVATE_FOLDER = (
    '{ mkdir -p "$(dirname "$TMPDIR")"; mkdir -m 700 "$TMPDIR" 2>/dev/null; '
    # Another user may have made a folder or link of this name, to read or replace the compiled code in it.
    'if [ ! -L "$TMPDIR" ] && [ -d "$TMPDIR" ] && [ -O "$TMPDIR" ] '
    '&& [ -z "$(find "$TMPDIR" -maxdepth 0 -perm /022)" ]; then :; else '
    'echo "error: $TMPDIR: the folder for temporary files belongs to another user, other users may write to it, or '
    "it is a link or a file; expected: a folder of your own that only you may write to; remove this folder, so that "
    'the next job creates it, or set another folder as \\`scratch\\` in the file of the site" >&2; exit 1; fi; }'
)
"""Shell commands that create the job's private folder $TMPDIR, or end the job if the folder is not private."""


def shell_prefix(site: Site) -> str:
    """Return the commands that the shell of every job runs first.

    They load modules, set folders for temporary files, run `bloomery` in the container, and switch on strict mode.
    """
    lines = []
    if site.modules:
        # On some nodes a non-interactive shell does not define `module`.
        lines.append("type module >/dev/null 2>&1 || . /etc/profile")
        lines.append(f"module load {' '.join(site.modules)}")
    if site.scratch:
        lines.append(f"export TMPDIR={site.scratch}/bloomery-$USER")
        lines.append(_PRIVATE_FOLDER)
        lines.append('export TRITON_CACHE_DIR="$TMPDIR/triton" TORCH_EXTENSIONS_DIR="$TMPDIR/torch"')
    if site.container:
        options = " ".join(site.container_options)
        lines.append(f'bloomery() {{ apptainer exec {options} {site.container} bloomery "$@"; }}')
    # This prefix replaces Snakemake's own, which sets strict mode. Module scripts fail in strict mode, so set it last.
    lines.append("set -euo pipefail")
    return "; ".join(lines) + "; "
