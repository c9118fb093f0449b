"""Build the command that starts a segment's processes: torchrun on this machine, or srun with one torchrun per node."""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError, ResourceError
from bloomery.base.progress import say
from bloomery.config.site import load_site
from bloomery.config.training import TrainingConfig
from bloomery.contracts.paths import RunPaths

_PORTS_TRIED = 100


@dataclass(frozen=True)
class Allocation:
    """Nodes of the surrounding SLURM job, and the processes and CPUs on each node."""

    nodes: int
    ranks_per_node: int
    cpus_per_node: int


def start_command(training: TrainingConfig, allocation: Allocation | None, arguments: list[str]) -> list[str]:
    """Return the command that starts all processes of a segment. `arguments` are passed to `training.loop.main`.

    Raises:
        ResourceError: `allocation` is given although this process is not in a SLURM job, or no port is free.
        TryAgainError: the scheduler does not answer.
        ConfigError: the site file is wrong.
    """
    if allocation is None:
        world = str(training.parallel.world_size)
        torchrun = [sys.executable, "-m", "training.processes.torchrun", "--standalone", "--nproc-per-node", world]
        return [*torchrun, "-m", "training.loop.main", *arguments]
    job = slurm.own_job()
    if job is None:
        raise ResourceError(
            "--nodes was given, but this process is not in a SLURM job",
            where="SLURM_JOB_ID",
            expected="the command inside a SLURM job; on machines without a scheduler, also --node-rank and "
            "--master-address; on this machine alone, the command without --nodes",
        )
    site = load_site()
    python = [sys.executable]
    if site.container is not None:
        # The container has its own Python. srun and the scheduler's other commands run outside of the container.
        python = ["apptainer", "exec", *site.container_options, site.container, "python3"]
    return [
        # Without --kill-on-bad-exit, the other nodes would wait for a dead node until their collective times out.
        *("srun", "--kill-on-bad-exit=1", "--mpi=none", "--cpu-bind=none"),
        *(f"--nodes={allocation.nodes}", f"--ntasks={allocation.nodes}", "--ntasks-per-node=1"),
        f"--cpus-per-task={allocation.cpus_per_node}",
        *(*python, "-m", "training.processes.start_node"),
        *("--nodes", str(allocation.nodes), "--ranks-per-node", str(allocation.ranks_per_node)),
        *("--gpus-per-node", str(site.training.gpus_per_node)),
        *("--master-address", slurm.first_node_address(job), "--master-port", str(rendezvous_port(int(job)))),
        *("--", *arguments),
    ]


def rank_arguments(config: Path, run: Path, number: int) -> list[str]:
    """Return the arguments of `training.loop.main` for segment `number` of the training in `run`."""
    result = result_path(RunPaths(run), number)
    return ["--config", str(config), "--folder", str(run), "--number", str(number), "--result", str(result)]


def result_path(paths: RunPaths, number: int) -> Path:
    """Return the file in which the processes of segment `number` report its end."""
    return paths.segments / f".result-{number}.json"


def rendezvous_port(job: int) -> int:
    """Return a port from 20000 to 39999 that is free on this node, which must be the first node of the job.

    The first port to try depends on the job's number, so that two jobs usually start at different ports.

    Raises:
        ResourceError: none of the tried ports is free.
    """
    for step in range(_PORTS_TRIED):
        port = 20000 + (job * 7 + step * 1009) % 20000
        with socket.socket() as tried:
            try:
                tried.bind(("", port))
            except OSError:
                continue
            return port
    raise ResourceError(
        f"{_PORTS_TRIED} ports were tried, and none of them is free",
        where="ports 20000 to 39999 of this node",
        expected="a free port on the first node of the job; run the same command again when other jobs have ended",
    )


def end_of_job() -> float | None:
    """Return the time at which SLURM ends this job, in seconds of the Unix epoch.

    Return None outside of a SLURM job, for a job without a time limit, or if the scheduler does not answer.
    """
    job = slurm.own_job()
    if job is None:
        return None
    try:
        left = slurm.seconds_left(job)
    except BloomeryError as error:
        say(f"cannot read the time limit of job {job} ({error}); only training.segment.minutes limits the segment")
        return None
    return None if left is None else time.time() + left


def process_environment(training: TrainingConfig) -> dict[str, str]:
    """Return the environment variables of the segment's processes."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(training.threads_per_rank),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
