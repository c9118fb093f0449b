"""Test the resources that the workflow's data jobs request."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from planned_run import planned

from bloomery.config.site import JobTarget
from bloomery.orchestration.job_resources import fixed_resources, job_resources
from bloomery.orchestration.run_plan import RunPlan

pytestmark = pytest.mark.usefixtures("no_site")
SHARD = SimpleNamespace(source="web", part="00000")


def requested(resources: dict[str, Any], attempt: int = 1, wildcards: Any = SHARD) -> tuple[int, int]:
    return resources["mem_mb"](wildcards, attempt=attempt), resources["runtime"](wildcards, attempt=attempt)


def with_texts(folder: Path, plan: RunPlan, sizes: dict[str, float]) -> RunPlan:
    """Return `plan` with other sizes of its shards, in MB, instead of files of this size."""
    plan.__dict__["part_mb"] = sizes
    return plan


def test_memory_and_time_follow_the_bytes_of_the_jobs_own_shard(tmp_path: Path) -> None:
    plan = with_texts(tmp_path, planned(tmp_path), {"web/00000": 100.0, "web/00001": 1000.0, "books/00000": 900.0})
    measure = job_resources(plan, "measure")
    large = SimpleNamespace(source="web", part="00001")
    # 2 x (335 + 0.06 x 100) + 400 = 1082 MB; 10 + 8 x (1 + 0.15 x 100) / 60 = 12.1 minutes.
    assert requested(measure) == (1100, 13)
    # 2 x (335 + 0.06 x 1000) + 400 = 1190 MB; 10 + 8 x (1 + 0.15 x 1000) / 60 = 30.1 minutes.
    assert requested(measure, wildcards=large) == (1200, 31)
    keys = job_resources(plan, "scatter_keys")
    assert requested(keys, wildcards=SimpleNamespace(shard="web/00001"))[0] == 1400
    # The whole corpus has 2,000 MB: 10 + 8 x (5 + 0.008 x 2000) / 60 = 12.8 minutes.
    assert requested(job_resources(plan, "report_corpus"), wildcards=SimpleNamespace()) == (1200, 13)


def test_a_pair_of_token_files_counts_all_its_shards(tmp_path: Path) -> None:
    plan = planned(tmp_path, index={"shards_per_file": 2})
    with_texts(tmp_path, plan, {f"web/{n:05d}": 1000.0 for n in range(3)})
    encode = job_resources(plan, "encode")
    assert plan.token_groups["web/00000"] == ["web/00000", "web/00001"]
    assert requested(encode)[0] == 3100  # 2 x (450 + 0.45 x 2000) + 400
    assert requested(encode, wildcards=SimpleNamespace(source="web", part="00002"))[0] == 2200


def test_each_attempt_requests_twice_the_memory_and_time(tmp_path: Path) -> None:
    plan = with_texts(tmp_path, planned(tmp_path), {"web/00000": 100.0})
    measure = job_resources(plan, "measure")
    assert [requested(measure, attempt) for attempt in (1, 2, 3)] == [(1100, 13), (2200, 26), (4400, 52)]
    fixed = fixed_resources(plan, mem_mb=500, runtime=60)
    assert [requested(fixed, attempt) for attempt in (1, 2)] == [(500, 60), (1000, 120)]


def test_the_search_for_duplicates_requests_its_own_limit_of_memory(tmp_path: Path) -> None:
    plan = planned(tmp_path, corpus={"dedup": {"memory_bytes": "4GB"}})
    # 2 x (250 + 4000) + 400 MB.
    assert requested(job_resources(plan, "find_candidates"), wildcards=SimpleNamespace())[0] == 8900


def test_no_attempt_exceeds_the_limits_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(
        "account: ours\njobs: {partition: cpu, max_minutes: 100, max_memory_mb: 16000}\n"
    )
    plan = with_texts(tmp_path, planned(tmp_path), {"web/00000": 100.0})
    measure = job_resources(plan, "measure", rules_in_group=5, jobs_in_group=8)
    assert (measure["slurm_account"], measure["slurm_partition"]) == ("ours", "cpu")
    # Eight shards share a node of 16,000 MB, and five rules share 100 minutes.
    assert [requested(measure, attempt) for attempt in (1, 2, 3)] == [(1100, 13), (2000, 20), (2000, 20)]
    transfer = fixed_resources(plan, mem_mb=1, runtime=240, place=JobTarget(partition="transfer", account="theirs"))
    assert (transfer["slurm_account"], transfer["slurm_partition"]) == ("theirs", "transfer")
    assert requested(transfer, 3) == (4, 960)
