"""Test that the output of SLURM is parsed into a cluster.

SLURM 22.05 printed the texts in data/.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.orchestration.detect_cluster import (
    cluster_from,
    gpus_of,
    loaded_modules,
    parse_accounts,
    parse_partitions,
    scratch_folder,
)

DATA = Path(__file__).parent / "data"


def text(name: str) -> str:
    return (DATA / name).read_text()


def test_partitions_are_parsed_with_their_limits_and_nodes() -> None:
    found = {each.name: each for each in parse_partitions(text("sinfo_eight_gpus.txt"))}
    assert list(found) == ["gpu_20h", "gpu_100h", "visu", "cpu", "old", "archive"]
    gpu = found["gpu_100h"]
    assert (gpu.max_minutes, gpu.nodes, gpu.gpus_per_node, gpu.gpus) == (6000, 52, 8, 416)
    assert (gpu.kinds[0].cpus, gpu.kinds[0].memory_mb) == (64, 512_000)
    assert found["visu"].max_minutes == 30
    assert [kind.gpus for kind in found["visu"].kinds] == [8, 4]
    assert found["archive"].max_minutes is None
    assert (found["cpu"].is_default, found["cpu"].gpus) == (True, 0)
    assert [name for name, each in found.items() if not each.is_up] == ["old"]


def test_empty_output_and_error_messages_contain_no_partitions() -> None:
    assert parse_partitions("") == []
    assert parse_partitions("slurm_load_partitions: Unable to contact slurm controller (connect failure)\n") == []


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", 0),
        ("", 0),
        ("gpu:8", 8),
        ("gpu:a100:8(S:0-1)", 8),
        ("gpu:a100_3g.20gb:2(S:0,1),gpu:a100:6,nvme:1", 8),
        ("craynetwork:4", 0),
        ("gpu", 1),
    ],
)
def test_the_gpus_of_a_node_are_counted_from_its_gres(gres: str, gpus: int) -> None:
    assert gpus_of(gres) == gpus


def test_settings_of_the_scheduler_are_parsed() -> None:
    cluster = cluster_from(text("sinfo_lab.txt"), text("scontrol_config.txt"))
    assert (cluster.name, cluster.accounting) == ("lab", False)
    assert cluster.partition("gpu,other") == cluster.partitions[1]
    with_accounts = text("scontrol_config.txt").replace("accounting_storage/none", "accounting_storage/slurmdbd")
    assert cluster_from("", with_accounts, "abc@v100\nabc@a100\n\nabc@v100\n").accounts == ("abc@v100", "abc@a100")
    assert cluster_from("", with_accounts).accounting


def test_accounts_are_listed_once() -> None:
    assert parse_accounts(" a \nb\na\n") == ["a", "b"]


def test_modules_and_scratch_are_read_from_the_environment() -> None:
    assert loaded_modules({"LOADEDMODULES": "gcc/12:cuda/12.4"}) == ["gcc/12", "cuda/12.4"]
    assert loaded_modules({}) == []
    assert scratch_folder({"WORK": "/work/me", "SCRATCH": "/scratch/me"}) == "${SCRATCH}"
    assert scratch_folder({"WORK": "/work/me"}) == "${WORK}"
    assert scratch_folder({"SCRATCH": "relative"}) is None
