"""What a workflow on a cluster knows of the jobs of the workflows before it.

Snakemake's SLURM executor does not take up jobs of a workflow that was killed: it submits them again. Training that
goes on in such a job is waited for; any other job is ended, because two writers of one file cost time and nothing more.
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
"""The rule whose jobs train."""


def remember_workflow(paths: RunPaths, snakemake_logs: Iterable[Path]) -> None:
    """Note the name that the executor gave to all jobs of this workflow, as Snakemake's own log says it."""
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in snakemake_logs)
    if found := re.search(r"SLURM run ID: (\S+)", text):
        paths.slurm_runs.parent.mkdir(parents=True, exist_ok=True)
        with paths.slurm_runs.open("a", encoding="utf-8") as handle:
            handle.write(found.group(1) + "\n")


def workflow_names(paths: RunPaths) -> list[str]:
    """Job names of this run's latest workflows, the newest last."""
    try:
        return paths.slurm_runs.read_text(encoding="utf-8").split()[-_REMEMBERED:]
    except FileNotFoundError:
        return []


def jobs_alive(paths: RunPaths) -> list[slurm.QueuedJob]:
    """Jobs of this run that run or wait. Raises TryAgainError when the scheduler does not answer."""
    names = workflow_names(paths)
    return [job for job in slurm.queue(names=names) if job.is_alive] if names and slurm.has_slurm() else []


def training_dependency(paths: RunPaths) -> str | None:
    """Condition of sbatch under which the next segment starts: after every training job of this run that is alive."""
    try:
        alive = [job.job for job in jobs_alive(paths) if job.rule == TRAINING_RULE]
    except BloomeryError as error:
        say(f"the scheduler does not say which jobs of this run are alive ({error}); the lease alone keeps them apart")
        return None
    return "afterany:" + ":".join(alive) if alive else None


def end_data_jobs(paths: RunPaths) -> bool:
    """Cancel what an earlier workflow left in the queue, training aside, and wait until it is gone; False: nothing.

    A job that is cancelled removes what it had made last, so the graph of jobs must be built after that.
    """
    cancelled: list[str] = []
    deadline = time.monotonic() + _LONGEST_CANCEL_SECONDS
    try:
        while left := [job.job for job in jobs_alive(paths) if job.rule != TRAINING_RULE]:
            if not cancelled:
                cancelled = left
                say(f"cancelling what an earlier workflow left in the queue: {' '.join(left)}")
                slurm.call("scancel", *left)
            if time.monotonic() > deadline:
                say(f"still in the queue after {_LONGEST_CANCEL_SECONDS:.0f} s: {' '.join(left)}")
                break
            time.sleep(_CANCEL_POLL_SECONDS)
    except BloomeryError as error:
        say(f"jobs of an earlier workflow may still run: {error}")
    return bool(cancelled)


def start_again() -> None:
    """Replace this process by the same program with the same arguments."""
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def online_target(site: Site) -> JobTarget | None:
    """Where jobs that talk to the Hub go; None: they run beside the workflow.

    With HF_TOKEN they do so everywhere: that token is not handed to jobs, which find the one of `hf auth login`.
    """
    return None if os.environ.get("HF_TOKEN") else site.internet


def hide_token() -> None:
    """Keep the Hub token out of the environment that sbatch hands to jobs, and SLURM keeps in files.

    It moves into memory that programs on this machine read as a file for as long as this process lives.
    """
    token = os.environ.pop("HF_TOKEN", None)
    os.environ.pop("HUGGING_FACE_HUB_TOKEN", None)
    if token:
        descriptor = os.memfd_create("hub-token")
        os.write(descriptor, token.encode())
        os.environ[_TOKEN_PATH] = f"/proc/{os.getpid()}/fd/{descriptor}"


def forget_hidden_token() -> None:
    """In a job: the name of that memory means nothing on another machine."""
    if os.environ.get(_TOKEN_PATH, "").startswith("/proc/"):
        del os.environ[_TOKEN_PATH]


def shell_prefix(site: Site) -> str:
    """What the shell of every job does first: modules, temporary files, programs from the container, strict mode."""
    lines = []
    if site.modules:
        # Not every node's non-interactive shell knows `module`.
        lines.append("type module >/dev/null 2>&1 || . /etc/profile")
        lines.append(f"module load {' '.join(site.modules)}")
    if site.scratch:
        lines.append(f"export TMPDIR={site.scratch}/bloomery-$USER")
        lines.append('mkdir -p "$TMPDIR"')
        lines.append('export TRITON_CACHE_DIR="$TMPDIR/triton" TORCH_EXTENSIONS_DIR="$TMPDIR/torch"')
    if site.container:
        options = " ".join(site.container_options)
        lines.append(f'bloomery() {{ apptainer exec {options} {site.container} bloomery "$@"; }}')
    # Snakemake's own prefix, which a prefix of ours replaces; modules' scripts do not bear it.
    lines.append("set -euo pipefail")
    return "; ".join(lines) + "; "
