"""Test the resources that the workflow's jobs request."""

from __future__ import annotations

from pathlib import Path

import pytest
from planned_run import planned

from bloomery.config.site import JobTarget
from bloomery.orchestration.job_resources import job_resources

pytestmark = pytest.mark.usefixtures("no_site")


def test_without_a_site_a_job_requests_the_resources_of_its_rule(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert job_resources(plan, mem_mb=2000, runtime=240, rules_in_group=5) == {"mem_mb": 2000, "runtime": 240}


def test_rules_that_share_a_job_share_the_longest_time_that_the_site_allows(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("account: ours\njobs: {partition: cpu, max_minutes: 100}\n")
    plan = planned(tmp_path)
    where = {"slurm_account": "ours", "slurm_partition": "cpu"}
    assert job_resources(plan, mem_mb=1, runtime=240) == {"mem_mb": 1, "runtime": 100, **where}
    assert job_resources(plan, mem_mb=1, runtime=240, rules_in_group=3)["runtime"] == 33
    assert job_resources(plan, mem_mb=1, runtime=10, rules_in_group=3)["runtime"] == 10
    assert job_resources(plan, mem_mb=1, runtime=10, rules_in_group=101)["runtime"] == 1
    transfer = JobTarget(partition="transfer", account="theirs")
    assert job_resources(plan, mem_mb=1, runtime=240, place=transfer) == {
        "mem_mb": 1,
        "runtime": 240,
        "slurm_account": "theirs",
        "slurm_partition": "transfer",
    }
