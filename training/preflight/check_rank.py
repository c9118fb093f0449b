"""The checks that each process makes alone, before any process group exists."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from bloomery.contracts.preflight import NodeState, RankState
from training.parallel.find_gpus import missing_gpus
from training.parallel.place import Place
from training.preflight.disk import disk_state
from training.preflight.gpus import gpu_states
from training.preflight.matmul import matmul_seconds
from training.preflight.run_checks import Findings
from training.preflight.versions import node_versions


def rank_checks(place: Place, folder: Path) -> tuple[RankState, Callable[[Findings[RankState]], None]]:
    """Return the record of this process before its checks, and the checks.

    Args:
        place: place of this process.
        folder: existing folder of the run, to which each node writes a small file.
    """
    missing = missing_gpus(place)
    start = RankState(
        rank=place.rank,
        local_rank=place.local_rank,
        host=place.host,
        missing_gpus=None if missing is None else missing.sentence,
        without_cuda=missing is not None and missing.without_cuda,
    )

    def check(findings: Findings[RankState]) -> None:
        on_gpu = torch.cuda.is_available()
        if on_gpu and missing is None:
            _check_memory(findings, place)
        # On one node without GPUs, all processes share the same CPUs, and there is no other node to compare them with.
        if missing is None and (on_gpu or place.local_world < place.world):
            device = torch.device("cuda", place.local_rank) if on_gpu else torch.device("cpu")
            findings.check = f"a matrix product on {device} of node {place.host}"
            findings.add(device=str(device), matmul_seconds=matmul_seconds(device))
        if place.is_first_of_node:
            _check_node(findings, place, folder)

    return start, check


def _check_memory(findings: Findings[RankState], place: Place) -> None:
    """Record the memory of this process's GPU."""
    findings.check = f"the first use of GPU {place.local_rank} of node {place.host}"
    free, size = torch.cuda.mem_get_info(place.local_rank)
    findings.add(memory_free_bytes=free, memory_bytes=size)


def _check_node(findings: Findings[RankState], place: Place, folder: Path) -> None:
    """Record the state of the node."""
    # The clocks are read right after the matrix product, before the GPU is idle.
    findings.check = f"reading the state of the GPUs of node {place.host}"
    gpus, driver = gpu_states()
    name = f".preflight-{place.host}-{place.rank}"
    findings.check = f"writing a file to {tempfile.gettempdir()} on node {place.host}"
    temporary = disk_state(Path(tempfile.gettempdir()), name)
    findings.check = f"writing a file to the folder of the run on node {place.host}"
    run = disk_state(folder, name)
    findings.add(
        node=NodeState(gpus=gpus, driver=driver, temporary=temporary, run=run, versions=node_versions()),
    )
