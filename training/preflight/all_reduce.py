"""Measure all-reduces inside each node, between neighbouring nodes, and among all processes; compare the clocks."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist

from bloomery.contracts.preflight import CommunicationState, PairTime, Step
from training.parallel.mesh import COLLECTIVE_TIMEOUT
from training.parallel.place import ranks_of_hosts
from training.preflight.matmul import forget_memory
from training.preflight.run_checks import Findings

_CPU_BYTES, _GPU_BYTES = 1 << 20, 64 << 20
_REPEATS = 5


def neighbours(nodes: int) -> list[list[tuple[int, int]]]:
    """Return the pairs of neighbouring nodes in a ring, in rounds. No node is in two pairs of a round.

    With three or more nodes, each node has two neighbours. So a node with a slow link differs from its neighbours.
    """
    if nodes < 2:
        return []
    rounds = [[(first, first + 1) for first in range(start, nodes - 1, 2)] for start in (0, 1)]
    if nodes > 2:
        last = (nodes - 1, 0)
        if nodes % 2:
            rounds.append([last])
        else:
            rounds[1].append(last)
    return [pairs for pairs in rounds if pairs]


def communicate(findings: Findings[CommunicationState], hosts: Sequence[str], device: torch.device) -> None:
    """Measure the communication of this process. Collective.

    Args:
        findings: object to which the results are added.
        hosts: node of each rank.
        device: device of this process.
    """
    if device.type == "cuda":
        # The current device belongs to a thread, and this function may run in a new one.
        torch.cuda.set_device(device)
    nodes, own = ranks_of_hosts(hosts), findings.state
    names = list(nodes)
    inside = nodes[own.host]
    if len(inside) > 1:
        findings.check = f"the all-reduce among the processes of node {own.host}"
        findings.add(step=Step.INSIDE, inside_seconds=None)
        findings.add(inside_seconds=_seconds_among(inside, device))
    if own.rank == inside[0]:
        for pairs in neighbours(len(nodes)):
            for pair in pairs:
                if names.index(own.host) in pair:
                    peer = names[pair[1 - pair.index(names.index(own.host))]]
                    findings.check = f"the all-reduce with node {peer}"
                    findings.add(step=Step.PAIRS)
                    seconds = _seconds_among(sorted((own.rank, nodes[peer][0])), device)
                    findings.add(pairs=(*findings.state.pairs, PairTime(peer=peer, seconds=seconds)))
    findings.check = "the all-reduce among all processes"
    findings.add(step=Step.ALL)
    findings.add(all_seconds=_seconds(None, device))
    if device.type == "cuda":
        forget_memory(device)
    findings.check = "the barrier of all processes"
    findings.add(step=Step.CLOCK)
    dist.barrier()
    findings.add(step=Step.DONE, clock=time.time())


def _seconds_among(ranks: list[int], device: torch.device) -> float:
    """Return the shortest time of an all-reduce among `ranks`. Only these ranks call this function."""
    group = dist.new_group(ranks, timeout=COLLECTIVE_TIMEOUT, use_local_synchronization=True)
    try:
        return _seconds(group, device)
    finally:
        dist.destroy_process_group(group)


def _seconds(group: dist.ProcessGroup | None, device: torch.device) -> float:
    """Return the shortest time of several all-reduces, in seconds. If `group` is None, all processes take part."""
    size = _GPU_BYTES if device.type == "cuda" else _CPU_BYTES
    values = torch.zeros(size // 4, dtype=torch.float32, device=device)
    shortest = float("inf")
    # The first repetition also connects the processes.
    for repetition in range(1 + _REPEATS):
        started = time.perf_counter()
        dist.all_reduce(values, group=group)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if repetition:
            shortest = min(shortest, time.perf_counter() - started)
    return shortest
