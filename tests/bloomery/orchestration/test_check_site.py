"""Test the comparison of a site file with its cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.config.site import Site
from bloomery.orchestration.check_site import closed_partitions, dotted, site_problems
from bloomery.orchestration.detect_cluster import Cluster, cluster_from

DATA = Path(__file__).parent / "data"


def cluster(accounts: str = "abc@gpu\nabc@cpu\n") -> Cluster:
    return cluster_from((DATA / "sinfo_eight_gpus.txt").read_text(), "", accounts)


def found(site: dict[str, object], where: Cluster | None = None) -> list[str]:
    return site_problems(where or cluster(), dotted(Site.model_validate(site).model_dump()))


def test_an_empty_site_has_no_problems() -> None:
    assert found({}) == []


def test_a_site_that_requests_existing_resources_has_no_problems() -> None:
    training = {"partition": "gpu_20h,gpu_100h", "gpus_per_node": 8, "max_minutes": 1200, "account": "ABC@GPU"}
    assert found({"account": "abc@cpu", "training": training, "internet": {"partition": "archive"}}) == []


@pytest.mark.parametrize("place", ["jobs", "training", "internet"])
def test_a_missing_partition_or_account_is_reported_with_its_key(place: str) -> None:
    said = found({place: {"partition": "cpu,prepost,old", "account": "xyz"}})
    assert [line.split(":")[0] for line in said] == [f"{place}.partition", f"{place}.partition", f"{place}.account"]
    assert "no partition 'prepost', so choose one of gpu_20h, gpu_100h, visu, cpu, old, archive" in said[0]
    assert "'old' is down" in said[1]
    assert "you may not charge account 'xyz', so choose one of abc@gpu, abc@cpu" in said[2]


def test_too_many_gpus_and_too_long_a_time_are_reported() -> None:
    said = found({"training": {"partition": "visu", "gpus_per_node": 16, "max_minutes": 60}})
    assert said == [
        "training.gpus_per_node: 16, but a node of partition 'visu' has 8 GPUs, so set at most 8",
        "training.max_minutes: 60, but a job in partition 'visu' may run for at most 30 minutes, so set at most 30",
    ]


def test_unknown_facts_of_the_cluster_cause_no_problems() -> None:
    silent = cluster_from("", "", "")
    assert found({"account": "xyz", "training": {"partition": "gpu"}}, silent) == []


def test_unknown_features_qos_and_too_large_nodes_are_reported() -> None:
    sinfo = "main*|up|20:00:00|4|16|64000|gpu:fake:2(S:0)\n"
    associations = "abc|normal,qos_gpu-t3\n"
    where = cluster_from(sinfo, "", associations, "main*|a100,nvlink\nmain*|v100\n")
    assert (where.accounts, where.qos) == (("abc",), ("normal", "qos_gpu-t3"))
    training = {
        "partition": "main",
        "constraint": "a100,h100",
        "qos": "long",
        "cpus_per_node": 40,
        "memory_mb_per_node": 90000,
    }
    jobs = {"constraint": "v100,nvlink", "qos": "QOS_gpu-t3", "max_minutes": 3000, "max_memory_mb": 64001}
    assert found({"jobs": jobs, "training": training}, where) == [
        "jobs.max_memory_mb: 64001 MB, but a node of partition 'main' has 64000 MB, so set at most 64000",
        "jobs.max_minutes: 3000, but a job in partition 'main' may run for at most 1200 minutes, so set at most 1200",
        "training.qos: you may not request QoS 'long', so choose one of normal, qos_gpu-t3",
        "training.constraint: no node of partition 'main' has the feature 'h100'; the features of its nodes: a100, "
        "nvlink, v100",
        "training.cpus_per_node: 40 CPUs, but a node of partition 'main' has 16 CPUs, so set at most 16",
        "training.memory_mb_per_node: 90000 MB, but a node of partition 'main' has 64000 MB, so set at most 64000",
    ]


def test_a_partition_that_is_down_can_be_listed_separately() -> None:
    site = dotted(Site.model_validate({"jobs": {"partition": "old"}}).model_dump())
    assert site_problems(cluster(), site, also_closed=False) == []
    assert closed_partitions(cluster(), site) == site_problems(cluster(), site)
    assert len(closed_partitions(cluster(), site)) == 1
