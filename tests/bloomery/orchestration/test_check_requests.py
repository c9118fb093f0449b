"""Test the comparison of a run's jobs with the nodes of a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planned_run import planned

from bloomery.base.errors import ConfigError, TryAgainError
from bloomery.orchestration import check_requests, compare_cluster
from bloomery.orchestration.check_requests import JobRequest, ask_sbatch, request_problems, sbatch_options
from bloomery.orchestration.detect_cluster import Cluster, cluster_from
from bloomery.orchestration.training_job import training_job

pytestmark = pytest.mark.usefixtures("no_site")
SINFO = """\
main*|up|20:00:00|3|16|64000|gpu:fake:2
main*|up|20:00:00|1|32|64000|(null)
small|up|2:00:00|2|4|8000|(null)
"""
REQUEST = JobRequest(
    jobs="jobs",
    keys={key: f"key.{key}" for key in ("nodes", "cpus", "memory", "gpus", "minutes")},
    place={"slurm_partition": "main", "slurm_account": "ours"},
    nodes=2,
    cpus=8,
    memory_mb=4000,
    gres="gpu:2",
    minutes=1200,
)


def cluster() -> Cluster:
    return cluster_from(SINFO, "ClusterName = lab", "", "main*|\nsmall|\n")


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({}, []),
        ({"cpus": 33}, ["key.cpus: jobs request 33 CPUs per node, but partition 'main' has at most 32"]),
        (
            {"gres": "gpu:a100:4", "memory_mb": 64001},
            [
                "key.gpus: jobs request 4 GPUs per node, but partition 'main' has at most 2",
                "key.memory: jobs request 64001 MB of memory per node, but partition 'main' has at most 64000",
            ],
        ),
        (
            {"nodes": 4},
            [
                "key.nodes: jobs request 4 nodes with 2 GPUs, 8 CPUs and 4000 MB each, but partition 'main' has 3 "
                "such nodes"
            ],
        ),
        (
            {"cpus": 20},
            [
                "key.nodes: jobs request 2 nodes with 2 GPUs, 20 CPUs and 4000 MB each, but partition 'main' has "
                "0 such nodes"
            ],
        ),
        (
            {"minutes": 1201},
            ["key.minutes: jobs request 1201 minutes, but a job in partition 'main' may run for at most 1200 minutes"],
        ),
        # Without a partition, SLURM uses the default partition. One partition of a list is enough.
        ({"place": {}, "nodes": 4, "gres": None}, []),
        ({"place": {"slurm_partition": "small,main"}}, []),
        ({"place": {"slurm_partition": "unknown"}, "cpus": 999}, []),
    ],
)
def test_each_part_that_no_node_can_fulfil_is_listed_with_its_key(change: dict[str, Any], problems: list[str]) -> None:
    assert request_problems(cluster(), replace(REQUEST, **change)) == problems


def test_the_options_of_sbatch_are_those_of_the_job() -> None:
    assert sbatch_options(REQUEST) == [
        "--account=ours",
        "--partition=main",
        "--gres=gpu:2",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=8",
        "--mem=4000",
        "--time=1200",
    ]


@pytest.mark.parametrize(
    ("answer", "refused", "delayed"),
    [
        ("allocation failure: Invalid feature specification", True, False),
        ("sbatch: error: invalid partition\nallocation failure: Invalid partition name specified", True, False),
        ("allocation failure: Requested node configuration is not available", False, True),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", False, False),
    ],
)
def test_only_lasting_answers_of_sbatch_are_refusals(
    monkeypatch: pytest.MonkeyPatch, answer: str, *, refused: bool, delayed: bool
) -> None:
    def call(*_: str) -> str:
        raise TryAgainError(answer, where="sbatch")

    monkeypatch.setattr(check_requests, "call", call)
    found = ask_sbatch(REQUEST)
    assert (bool(found.refusal), bool(found.delay)) == (refused, delayed)


def test_a_run_that_does_not_fit_is_refused_with_one_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare_cluster, "detect", cluster)
    monkeypatch.setattr(compare_cluster, "ask_sbatch", lambda _: pytest.fail("sbatch is asked only if all sizes fit"))
    (tmp_path / "site.yaml").write_text(
        "jobs: {partition: small}\ntraining: {partition: nowhere, cpus_per_node: 40, max_minutes: 60}\n"
    )
    plan = planned(tmp_path)
    plan.__dict__["part_mb"] = {"web/00000": 5000.0, "web/00001": 1.0}
    rules = ["measure", "weigh_mixture", "train_segment"]
    with pytest.raises(ConfigError) as refused:
        compare_cluster.refuse_unfit_jobs(plan, rules=rules, trains=True, shards_per_job=8)
    lines = [line.strip() for line in str(refused.value).splitlines() if line.strip().startswith("- ")]
    # 2 x (335 + 0.06 x 5000) + 400 = 1,670 MB, so 1,700 MB for each of the 4 shards: 6,800 MB fit.
    assert lines == ["- training.partition: sinfo shows no partition 'nowhere', so choose one of main, small"]
    with pytest.raises(ConfigError) as refused:
        compare_cluster.refuse_unfit_jobs(plan, rules=["scatter_keys"], trains=False, shards_per_job=8)
    assert (
        "- jobs.max_memory_mb: jobs of the rule scatter_keys (4 of them share a SLURM job) request 13600 MB of memory "
        "per node, but partition 'small' has at most 8000" in str(refused.value)
    )


def test_a_scheduler_that_does_not_answer_does_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away() -> Cluster:
        raise TryAgainError("Unable to contact slurm controller", where="scontrol show config")

    monkeypatch.setattr(compare_cluster, "detect", away)
    compare_cluster.refuse_unfit_jobs(planned(tmp_path), rules=["measure"], trains=True, shards_per_job=8)
    assert "the workflow starts without this check: scontrol show config: Unable to contact" in capsys.readouterr().err


def test_the_request_of_a_training_names_the_keys_of_the_site(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    request = check_requests.training_request(training_job(plan.config, plan.site))
    assert (request.nodes, request.gpus, request.minutes) == (1, 0, 1200)
    assert set(request.keys) == {"nodes", "cpus", "memory", "gpus", "minutes"}
