"""Test the proposed answers for a site file and the doubts about answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.base.errors import ResourceError
from bloomery.config.keys import all_keys
from bloomery.config.site import Site, read_site
from bloomery.orchestration.detect_cluster import Cluster, cluster_from
from bloomery.orchestration.site_questions import QUESTIONS, Question, collect, doubts, nested

DATA = Path(__file__).parent / "data"


def cluster(name: str, accounts: str = "") -> Cluster:
    return cluster_from((DATA / f"sinfo_{name}.txt").read_text(), (DATA / "scontrol_config.txt").read_text(), accounts)


def answers(found: Cluster | None, **given: Any) -> dict[str, Any]:
    return collect(found, {key.replace("__", "."): value for key, value in given.items()}, modules=[], scratch=None)


def test_the_proposed_training_partition_has_the_most_gpus_and_the_longest_jobs() -> None:
    proposed = answers(cluster("eight_gpus"))
    assert proposed["training.partition"] == "gpu_100h"
    assert (proposed["training.gpus_per_node"], proposed["training.max_minutes"]) == (8, 6000)
    assert (proposed["jobs.partition"], proposed["jobs.max_minutes"]) == ("cpu", 1200)


def test_proposals_follow_the_answers_that_they_depend_on() -> None:
    proposed = answers(cluster("eight_gpus"), training__partition="gpu_20h", internet__partition="archive")
    assert proposed["training.max_minutes"] == 1200
    assert answers(cluster("eight_gpus"), training__partition="cpu")["training.gpus_per_node"] == 0
    assert nested(proposed)["internet"] == {"partition": "archive", "max_memory_mb": 32000}


def test_a_single_partition_without_a_time_limit_gets_proposals() -> None:
    proposed = answers(cluster("lab"))
    assert (proposed["jobs.partition"], proposed["training.partition"]) == ("main", "main")
    assert (proposed["training.max_minutes"], proposed["jobs.max_minutes"]) == (1200, None)


def test_questions_show_the_proposals_and_answers_replace_them() -> None:
    asked: dict[str, Any] = {}

    def ask(question: Question, proposed: Any) -> Any:
        asked[question.key] = proposed
        return "gpu_20h" if question.key == "training.partition" else proposed

    given = {"account": "abc"}
    found = collect(cluster("eight_gpus"), given, modules=["gcc"], scratch="${WORK}", ask=ask)
    assert asked["training.max_minutes"] == 1200
    assert asked["modules"] == ["gcc"]
    assert "account" not in asked
    assert "training.ranks_per_node" not in asked  # there is one rank per GPU, so it is not asked
    assert (found["account"], found["scratch"]) == ("abc", "${WORK}")


def test_without_slurm_the_required_options_must_be_given() -> None:
    with pytest.raises(ResourceError, match="--gpus-per-node --max-minutes") as raised:
        answers(None, jobs__partition="cpu", training__partition="gpu")
    assert "--account" not in str(raised.value)
    given = {"jobs__partition": "cpu", "training__partition": "gpu", "training__max_minutes": 60}
    found = answers(None, **given, training__gpus_per_node=4, container="a.sif")
    assert nested(found)["training"] == {"partition": "gpu", "gpus_per_node": 4, "max_minutes": 60}
    assert nested(found)["container_options"] == ["--nv"]


def test_doubts_name_the_key_and_the_facts_of_the_cluster() -> None:
    found = cluster("eight_gpus", "a\nb\n")
    said = doubts(found, answers(found, training__partition="visu", jobs__partition="old", internet__partition="net"))
    assert [each.split(":")[0] for each in said] == [
        "jobs.partition",
        "internet.partition",
        "training.constraint",
        "account",
    ]
    assert "2 nodes with 8 GPUs, 4 nodes with 4 GPUs" in said[2]
    too_much = answers(found, account="b", training__partition="gpu_20h", training__gpus_per_node=16)
    too_much["training.max_minutes"] = 6000
    assert [each.split(":")[0] for each in doubts(found, too_much)] == [
        "training.gpus_per_node",
        "training.max_minutes",
    ]
    assert doubts(found, answers(found, account="b")) == []


def test_every_question_sets_a_key_of_the_site() -> None:
    assert {question.key for question in QUESTIONS} <= set(all_keys(Site))


def test_the_example_of_a_cluster_with_eight_gpus_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    path = ROOT / "config/sites/eight-gpus.yaml"
    site = read_site(path)
    assert (site.training.gpus_per_node, site.training.max_minutes, site.scratch) == (8, 1200, "/scratch/me")
    assert site.job_resources(site.training) == {
        "slurm_account": "abc@gpu",
        "slurm_partition": "gpu_p",
        "qos": "qos_gpu-t3",
        "constraint": "a100",
    }
    # Uncomment the two lines for jobs of 100 hours, as a user would.
    other = path.read_text().replace("  qos: qos_gpu-t3\n  max_minutes: 1200\n", "")
    other = other.replace("  # qos: qos_gpu-t4\n  # max_minutes: 6000\n", "  qos: qos_gpu-t4\n  max_minutes: 6000\n")
    assert Site.model_validate(yaml.safe_load(other.replace("${SCRATCH}", "/s"))).training.max_minutes == 6000
