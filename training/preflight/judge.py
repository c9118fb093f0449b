"""Find problems in what the processes of all nodes measured. The functions here read no clock, file or device.

A measurement is compared with the median of the other nodes, so no limits for a kind of GPU are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from bloomery.base.units import format_bytes
from bloomery.config.training_loop import PreflightConfig
from bloomery.contracts.preflight import NodeState, Problem, ProblemKind, RankState
from training.parallel.given_gpus import expected_gpus
from training.parallel.place import ranks_of_hosts

_LEAST_FREE_MEMORY = 0.8
"""Minimum free memory of a GPU, relative to the median of all GPUs. With less, another process may use the GPU."""


def judge_ranks(
    states: Sequence[RankState], limits: PreflightConfig, checkpoint_bytes: int | None, in_job: bool
) -> list[Problem]:
    """Return the problems in what the processes measured alone.

    Args:
        states: the reports of all processes, in the order of their ranks. Ranks that did not report are absent.
        limits: the limits that apply.
        checkpoint_bytes: size of the next checkpoint. None if it is unknown.
        in_job: whether another node can replace a node, as in a SLURM job.
    """
    hosts = ranks_of_hosts([state.host for state in states])
    nodes = {state.host: state.node for state in states if state.node is not None}
    return [
        *_missing_gpus(states, in_job),
        *_errors(states),
        *_memory(states),
        *_gpu_errors(nodes),
        *_slow_products(states, limits, len(hosts)),
        *_disks(nodes, limits, checkpoint_bytes),
        *_slow_writes(nodes, limits),
        *_versions(nodes),
    ]


def median_of_others(values: Mapping[str, float], host: str) -> float:
    """Return the median of all values except that of `host`."""
    return median(value for other, value in values.items() if other != host)


def _missing_gpus(states: Sequence[RankState], in_job: bool) -> list[Problem]:
    """Return one problem for each node that lacks GPUs.

    If all nodes lack them, or torch cannot use GPUs, other nodes would probably lack them too. Then only a person can
    solve the problem.
    """
    lacking = {state.host: state for state in reversed(states) if state.missing_gpus is not None}
    hosts = {state.host for state in states}
    everywhere = lacking.keys() == hosts and (len(hosts) > 1 or not in_job)
    return [
        Problem(
            kind=ProblemKind.MISSING_GPU,
            message=state.missing_gpus or "",
            expected=expected_gpus(state.without_cuda),
            host=host,
            rank=state.rank,
            exclude=not (everywhere or (lacking.keys() == hosts and state.without_cuda)),
        )
        for host, state in reversed(lacking.items())
    ]


def _errors(states: Sequence[RankState]) -> list[Problem]:
    """Return one problem for each node with a check that failed or did not end.

    If this concerns most nodes, they share the cause, such as a file server, so none is excluded.
    """
    first = {state.host: state for state in reversed(states) if state.error is not None}
    hosts = {state.host for state in states}
    shared = len(first) > 1 and 2 * len(first) > len(hosts)
    return [
        Problem(kind=ProblemKind.CHECK, message=state.error or "", host=host, rank=state.rank, exclude=not shared)
        for host, state in reversed(first.items())
    ]


def _memory(states: Sequence[RankState]) -> list[Problem]:
    """Return the GPUs whose memory is partly in use, or smaller than that of most GPUs."""
    free = [state.memory_free_bytes for state in states if state.memory_free_bytes is not None]
    sizes = Counter(state.memory_bytes for state in states if state.memory_bytes is not None)
    if len(free) < 2:
        return []
    usual_free, usual_size = median(free), sizes.most_common(1)[0][0]
    found = []
    for state in states:
        if state.memory_free_bytes is None or state.memory_bytes is None:
            continue
        if state.memory_bytes < usual_size:
            found.append(
                Problem(
                    kind=ProblemKind.GPU,
                    message=f"GPU {state.local_rank} has {format_bytes(state.memory_bytes)} of memory; most GPUs of "
                    f"this training have {format_bytes(usual_size)}",
                    host=state.host,
                    rank=state.rank,
                    ends_segment=False,
                    exclude=False,
                )
            )
        elif state.memory_free_bytes < _LEAST_FREE_MEMORY * usual_free:
            found.append(
                Problem(
                    kind=ProblemKind.GPU,
                    message=f"GPU {state.local_rank} has only {format_bytes(state.memory_free_bytes)} of free memory; "
                    f"the median of all GPUs is {format_bytes(int(usual_free))}, so another process probably uses "
                    "this GPU",
                    host=state.host,
                    rank=state.rank,
                    ends_segment=False,
                )
            )
    return found


def _gpu_errors(nodes: Mapping[str, NodeState]) -> list[Problem]:
    """Return the GPUs for which NVML reports a fault."""
    found = []
    for host, node in nodes.items():
        for gpu in node.gpus:
            faults = []
            if gpu.uncorrected_errors:
                count = gpu.uncorrected_errors
                faults.append(f"{count} uncorrected memory error{'s' * (count > 1)} (ECC)")
            if gpu.remapping_failed:
                faults.append("a defective row of memory that could not be replaced")
            if faults:
                said = f"GPU {gpu.index} ({gpu.name}) reports {' and '.join(faults)}"
                found.append(Problem(kind=ProblemKind.GPU, message=said, host=host, ends_segment=False))
            if gpu.throttled_by:
                clocks = f" to {gpu.clock_mhz} of {gpu.max_clock_mhz} MHz" if gpu.clock_mhz else ""
                said = f"GPU {gpu.index} ({gpu.name}) reduced its clock{clocks}: {', '.join(gpu.throttled_by)}"
                # The time of the matrix product decides whether this GPU is too slow.
                found.append(Problem(kind=ProblemKind.GPU, message=said, host=host, ends_segment=False, exclude=False))
    return found


def _slow_products(states: Sequence[RankState], limits: PreflightConfig, nodes: int) -> list[Problem]:
    """Return the nodes whose slowest process takes too long for a matrix product."""
    times: dict[str, float] = {}
    slowest: dict[str, RankState] = {}
    for state in states:
        if state.matmul_seconds is not None and state.matmul_seconds > times.get(state.host, 0.0):
            times[state.host], slowest[state.host] = state.matmul_seconds, state
    if len(times) < 2:
        return []
    limit = limits.slow_ratio if nodes > 2 else limits.slow_ratio**2
    found = []
    for host, seconds in times.items():
        ratio = seconds / median_of_others(times, host)
        if ratio > limit:
            state = slowest[host]
            said = (
                f"a matrix product on {state.device} takes {1000 * seconds:.3g} ms, which is {ratio:.2g} times the "
                "median of the other nodes"
            )
            found.append(Problem(kind=ProblemKind.SLOW, message=said, host=host, rank=state.rank, ends_segment=False))
    return found


def _disks(nodes: Mapping[str, NodeState], limits: PreflightConfig, checkpoint_bytes: int | None) -> list[Problem]:
    """Return the nodes without space for temporary files, and a problem if the run's folder has too little space."""
    found = []
    least = int(limits.min_temporary_gb * 1e9)
    for host, node in nodes.items():
        if node.temporary.free_bytes < least:
            said = (
                f"the folder for temporary files has {format_bytes(node.temporary.free_bytes)} of free space, less "
                f"than {limits.min_temporary_gb:g} GB (training.preflight.min_temporary_gb)"
            )
            found.append(Problem(kind=ProblemKind.TEMPORARY_DISK, message=said, host=host, ends_segment=False))
    # All nodes share the folder of the run, so the first node's view of it counts, and no node is at fault.
    shared = next(iter(nodes.values()), None)
    if shared is not None and checkpoint_bytes is not None and shared.run.free_bytes < checkpoint_bytes:
        said = (
            f"the folder of the run has {format_bytes(shared.run.free_bytes)} of free space, but the next checkpoint "
            f"needs {format_bytes(checkpoint_bytes)}"
        )
        found.append(Problem(kind=ProblemKind.RUN_DISK, message=said, exclude=False))
    return found


def _slow_writes(nodes: Mapping[str, NodeState], limits: PreflightConfig) -> list[Problem]:
    """Return the nodes that write slowly while the others do not, and a note if all nodes write slowly."""
    found, least = [], limits.min_write_mb_per_second
    for name, speeds in (
        ("the folder of the run", {host: node.run.write_mb_per_second for host, node in nodes.items()}),
        ("the folder for temporary files", {host: node.temporary.write_mb_per_second for host, node in nodes.items()}),
    ):
        slow = [host for host, speed in speeds.items() if speed < least]
        if slow and len(slow) == len(speeds):
            said = f"all nodes write to {name} at less than {least:g} MB/s"
            found.append(Problem(kind=ProblemKind.SLOW, message=said, ends_segment=False, exclude=False))
            continue
        found += [
            Problem(
                kind=ProblemKind.SLOW,
                message=f"this node writes to {name} at {speeds[host]:.2g} MB/s; the median of the other nodes is "
                f"{median_of_others(speeds, host):.3g} MB/s",
                host=host,
                ends_segment=False,
                exclude=median_of_others(speeds, host) >= least,
            )
            for host in slow
        ]
    return found


def _versions(nodes: Mapping[str, NodeState]) -> list[Problem]:
    """Return the nodes whose software differs from that of most nodes, and a note on different drivers."""
    found = []
    for name in sorted({name for node in nodes.values() for name in node.versions}):
        found += _differing(name, {host: node.versions.get(name, "absent") for host, node in nodes.items()})
    drivers = {host: node.driver for host, node in nodes.items() if node.driver is not None}
    # Different drivers train together, so they are only reported.
    return [
        *found,
        *(
            problem.model_copy(update={"ends_segment": False, "exclude": False})
            for problem in _differing("the NVIDIA driver", drivers)
        ),
    ]


def _differing(name: str, versions: Mapping[str, str]) -> list[Problem]:
    """Return one problem for each node whose version differs from the most frequent one.

    Without a majority of nodes with one version, no node can be blamed, so none is excluded.
    """
    if len(set(versions.values())) < 2:
        return []
    # The first of equally frequent versions is that of the lowest rank.
    usual, count = Counter(versions.values()).most_common(1)[0]
    return [
        Problem(
            kind=ProblemKind.VERSION,
            message=f"{name} is {version} on this node, but {usual} on {count} of {len(versions)} nodes",
            host=host,
            exclude=2 * count > len(versions),
        )
        for host, version in versions.items()
        if version != usual
    ]
