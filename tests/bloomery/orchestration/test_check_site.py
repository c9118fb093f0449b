"""A site's file against the cluster that it is meant for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.config.site import Site
from bloomery.orchestration.check_site import dotted, site_problems
from bloomery.orchestration.detect_cluster import Cluster, cluster_from

DATA = Path(__file__).parent / "data"


def cluster(accounts: str = "abc@gpu\nabc@cpu\n") -> Cluster:
    return cluster_from((DATA / "sinfo_eight_gpus.txt").read_text(), "", accounts)


def found(site: dict[str, object], where: Cluster | None = None) -> list[str]:
    return site_problems(where or cluster(), dotted(Site.model_validate(site).model_dump()))


def test_a_site_that_asks_for_nothing_contradicts_nothing() -> None:
    assert found({}) == []


def test_a_site_that_asks_for_what_is_there() -> None:
    training = {"partition": "gpu_20h,gpu_100h", "gpus_per_node": 8, "max_minutes": 1200, "account": "ABC@GPU"}
    assert found({"account": "abc@cpu", "training": training, "internet": {"partition": "archive"}}) == []


@pytest.mark.parametrize("place", ["jobs", "training", "internet"])
def test_what_the_cluster_lacks_is_named_with_its_key(place: str) -> None:
    said = found({place: {"partition": "cpu,prepost,old", "account": "xyz"}})
    assert [line.split(":")[0] for line in said] == [f"{place}.partition", f"{place}.partition", f"{place}.account"]
    assert "no partition 'prepost', only gpu_20h, gpu_100h, visu, cpu, old, archive" in said[0]
    assert "'old' is down" in said[1]
    assert "you may not charge account 'xyz', only abc@gpu, abc@cpu" in said[2]


def test_a_node_and_a_time_that_the_partition_does_not_have() -> None:
    said = found({"training": {"partition": "visu", "gpus_per_node": 16, "max_minutes": 60}})
    assert said == [
        "training.gpus_per_node: 16, but a node of 'visu' has 8",
        "training.max_minutes: 60, but 'visu' allows 30",
    ]


def test_what_slurm_does_not_say_contradicts_nothing() -> None:
    silent = cluster_from("", "", "")
    assert found({"account": "xyz", "training": {"partition": "gpu"}}, silent) == []
