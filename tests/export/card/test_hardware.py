"""Test the devices and hours of the card."""

from __future__ import annotations

import json

import pytest

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.preflight import (
    DiskState,
    GpuState,
    NodeState,
    Preflight,
    RankState,
    preflight_path,
    write_preflight,
)
from export.card.hardware import describe_devices, read_hardware

DISK = DiskState(free_bytes=1, write_mb_per_second=1.0)
STAMP = {"consumed_samples": 4, "consumed_tokens": 8, "time": "2026-01-01T00:00:00Z"}
STEP = STAMP | {
    "global_batch_size": 4,
    "learning_rate": 1e-3,
    "loss": 5.0,
    "grad_norm": 1.0,
    "seconds": 100.0,
    "tokens_per_second": 1.0,
    "tflops_hardware": 0.1,
    "tflops_model": 0.1,
    "samples_per_second": 1.0,
    "total_iterations": 9,
}


def preflight(segment, ranks, nodes, *, gpu):
    node = NodeState(
        gpus=(GpuState(index=0, name="NVIDIA H100"),) if gpu else (),
        temporary=DISK,
        run=DISK,
        versions={},
        driver="570.1",
    )
    found = tuple(
        RankState(
            rank=rank,
            local_rank=0,
            host=f"secret-host-{rank * nodes // ranks}",
            device=f"cuda:{rank}" if gpu else "cpu",
            memory_bytes=80 << 30 if gpu else None,
            node=node,
        )
        for rank in range(ranks)
    )
    return Preflight(segment=segment, time="2026-01-01T00:00:00Z", seconds=1.0, ranks=found)


@pytest.fixture
def paths(tmp_path):
    """Return a run of three iterations, of which segment 2 repeats the second."""
    made = RunPaths(tmp_path)
    made.logs.mkdir(parents=True)
    lines = [STEP | {"iteration": n, "segment": s} for n, s in ((1, 1), (2, 1), (2, 2), (3, 2))]
    lines[1]["save_seconds"] = 20.0
    lines.append(
        STAMP | {"iteration": 3, "segment": 2, "validation": {"en": 5.0}, "validation_mean": 5.0, "seconds": 7.0}
    )
    (made.logs / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made.preflight.mkdir(parents=True)
    write_preflight(preflight_path(made.preflight, 1), preflight(1, 4, 2, gpu=True))
    write_preflight(preflight_path(made.preflight, 2), preflight(2, 8, 2, gpu=True))
    return made


def test_hours_include_repeated_iterations_and_count_the_devices_of_each_segment(paths):
    found = read_hardware(paths, 3)
    assert (found.iteration_seconds, found.save_seconds, found.validation_seconds) == (400.0, 20.0, 7.0)
    assert found.device_seconds == 220 * 4 + 207 * 8
    assert (found.device, found.segments) == ("GPU", 2)
    assert found.devices == (
        "4 GPUs (NVIDIA H100, 80.0 GiB) on 2 nodes, driver 570.1",
        "8 GPUs (NVIDIA H100, 80.0 GiB) on 2 nodes, driver 570.1",
    )


def test_later_iterations_do_not_count_for_an_earlier_checkpoint(paths):
    found = read_hardware(paths, 1)
    assert (found.iteration_seconds, found.segments, found.device_seconds) == (100.0, 1, 400.0)


@pytest.mark.parametrize("content", [None, "{"])
def test_without_the_record_of_a_segment_the_device_hours_are_not_known(paths, content):
    path = preflight_path(paths.preflight, 2)
    path.unlink() if content is None else path.write_text(content)
    found = read_hardware(paths, 3)
    assert found.device_seconds is None
    assert found.devices == ("4 GPUs (NVIDIA H100, 80.0 GiB) on 2 nodes, driver 570.1",)


def test_processes_on_cpus_are_not_called_gpus(paths):
    assert describe_devices(preflight(1, 1, 1, gpu=False)) == "1 process on the CPUs of one node"
    assert describe_devices(preflight(1, 4, 2, gpu=False)) == "4 processes on the CPUs of 2 nodes"
