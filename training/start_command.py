"""The command that starts a segment's processes: torchrun here, or one torchrun a node through srun."""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import dataclass

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError, ResourceError
from bloomery.base.progress import say
from bloomery.config.site import load_site
from bloomery.config.training import TrainingConfig

_PORTS_TRIED = 100


@dataclass(frozen=True)
class Allocation:
    """Nodes of the SLURM job that this process runs in."""

    nodes: int
    ranks_per_node: int
    cpus_per_node: int


def start_command(training: TrainingConfig, allocation: Allocation | None, arguments: list[str]) -> list[str]:
    """The command for every process of a segment; `arguments` go to `training.loop.main`.

    Raises:
        ResourceError: an allocation is given outside of a SLURM job.
        TryAgainError: the scheduler does not answer.
        ConfigError: the site's file is wrong.
    """
    if allocation is None:
        world = str(training.parallel.world_size)
        torchrun = [sys.executable, "-m", "training.torchrun", "--standalone", "--nproc-per-node", world]
        return [*torchrun, "-m", "training.loop.main", *arguments]
    job = slurm.own_job()
    if job is None:
        raise ResourceError("not in a SLURM job", where="SLURM_JOB_ID", expected="no --nodes outside of one")
    site = load_site()
    python = [sys.executable]
    if site.container is not None:
        # The container has its own Python; srun and what asks the scheduler stay outside.
        python = ["apptainer", "exec", *site.container_options, site.container, "python3"]
    return [
        # Without --kill-on-bad-exit a dead node leaves the others waiting in a collective until its time limit.
        *("srun", "--kill-on-bad-exit=1", "--mpi=none", "--cpu-bind=none"),
        *(f"--nodes={allocation.nodes}", f"--ntasks={allocation.nodes}", "--ntasks-per-node=1"),
        f"--cpus-per-task={allocation.cpus_per_node}",
        *(*python, "-m", "training.start_node"),
        *("--nodes", str(allocation.nodes), "--ranks-per-node", str(allocation.ranks_per_node)),
        *("--master-address", slurm.first_node_address(job), "--master-port", str(rendezvous_port(int(job)))),
        *("--", *arguments),
    ]


def rendezvous_port(job: int) -> int:
    """A port from 20000 to 39999 that is free on this node, the first of the job's; two jobs begin at different ones.

    Raises:
        ResourceError: none of many is free.
    """
    for step in range(_PORTS_TRIED):
        port = 20000 + (job * 7 + step * 1009) % 20000
        with socket.socket() as tried:
            try:
                tried.bind(("", port))
            except OSError:
                continue
            return port
    raise ResourceError(f"{_PORTS_TRIED} ports are taken", where="ports 20000 to 39999 of this node")


def end_of_job() -> float | None:
    """When this SLURM job will be ended (Unix epoch); None outside of one, without a limit, or when nobody says."""
    job = slurm.own_job()
    if job is None:
        return None
    try:
        left = slurm.seconds_left(job)
    except BloomeryError as error:
        say(f"the scheduler does not say how long job {job} may run ({error}); training.segment.minutes holds alone")
        return None
    return None if left is None else time.time() + left


def process_environment(training: TrainingConfig) -> dict[str, str]:
    """Environment of the segment's processes."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(training.threads_per_rank),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
