"""Describe the devices and the hours of a training, from its preflights and its metrics. No host is named."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.errors import InputError
from bloomery.base.units import format_bytes
from bloomery.contracts.metrics_record import MetricsRecord, ValidationRecord
from bloomery.contracts.preflight import Preflight, preflight_path, read_preflight
from bloomery.contracts.read_metrics import read_records

if TYPE_CHECKING:
    from bloomery.contracts.paths import RunPaths


@dataclass(frozen=True)
class Hardware:
    """Devices and hours of a training, including iterations that were repeated."""

    devices: tuple[str, ...]
    """Description of the devices, one for each different layout, in the order of their first use. Empty if no preflight
    recorded them."""
    segments: int
    """Number of segments that trained."""
    iteration_seconds: float
    save_seconds: float
    validation_seconds: float
    device_seconds: float | None
    """Seconds of all devices together. None if a segment has no preflight."""
    device: str = "device"
    """What a device is: `GPU`, or `process` on a CPU."""

    @property
    def seconds(self) -> float:
        """Seconds of iterations, saves and validations together."""
        return self.iteration_seconds + self.save_seconds + self.validation_seconds


def read_hardware(paths: RunPaths, last: int) -> Hardware:
    """Read the devices and hours of the training until iteration `last`.

    A damaged preflight counts as missing, because it must not block an export.

    Raises:
        InputError: metrics.jsonl is missing.
    """
    iterations: dict[int, float] = defaultdict(float)
    saves: dict[int, float] = defaultdict(float)
    validations: dict[int, float] = defaultdict(float)
    for record in read_records(paths.logs / "metrics.jsonl"):
        if record.iteration > last:
            continue
        if isinstance(record, MetricsRecord):
            iterations[record.segment] += record.seconds
            saves[record.segment] += record.save_seconds or 0.0
        elif isinstance(record, ValidationRecord):
            validations[record.segment] += record.seconds or 0.0
    preflights = {number: _preflight(paths, number) for number in iterations}
    known = {number: found for number, found in preflights.items() if found is not None and found.ranks}
    spent = {number: iterations[number] + saves[number] + validations[number] for number in iterations}
    return Hardware(
        devices=tuple(dict.fromkeys(describe_devices(found) for found in known.values())),
        segments=len(iterations),
        iteration_seconds=sum(iterations.values()),
        save_seconds=sum(saves.values()),
        validation_seconds=sum(validations.values()),
        device_seconds=sum(spent[number] * len(known[number].ranks) for number in known)
        if known and len(known) == len(preflights)
        else None,
        device="GPU" if any(_on_gpu(found) for found in known.values()) else "process",
    )


def _preflight(paths: RunPaths, segment: int) -> Preflight | None:
    try:
        return read_preflight(preflight_path(paths.preflight, segment))
    except InputError:
        return None


def _on_gpu(preflight: Preflight) -> bool:
    return any(rank.device.startswith("cuda") for rank in preflight.ranks)


def describe_devices(preflight: Preflight) -> str:
    """Return a description such as `16 GPUs (NVIDIA H100, 79.6 GiB) on 2 nodes, driver 570.1`."""
    ranks, nodes = len(preflight.ranks), len({rank.host for rank in preflight.ranks})
    on_nodes = f"{nodes} nodes" if nodes != 1 else "one node"
    if not _on_gpu(preflight):
        return f"{ranks} process{'es' * (ranks != 1)} on the CPUs of {on_nodes}"
    states = [rank.node for rank in preflight.ranks if rank.node is not None]
    names = sorted({gpu.name for state in states for gpu in state.gpus})
    memory = sorted({format_bytes(rank.memory_bytes) for rank in preflight.ranks if rank.memory_bytes})
    drivers = sorted({state.driver for state in states if state.driver})
    about, driver = ", ".join([*names, *memory]), "/".join(drivers)
    text = f"{ranks} GPU{'s' * (ranks != 1)}{f' ({about})' if about else ''} on {on_nodes}"
    return f"{text}, driver {driver}" if driver else text
