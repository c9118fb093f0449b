"""Test that the start of a workflow refuses jobs that do not fit the cluster, and that data jobs get more memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster
from slurm_workflow import end_workflows, slurm_workflow
from workflow_support import TINY

pytestmark = pytest.mark.cluster
ONE_SHARD = TINY | {"corpus": {"dedup": {"partitions": 2}}}
INGEST_MB = 1100
"""Memory that the first attempt of `ingest` requests for a small shard: 2 x 335 + 400 MB, rounded up."""
APPTAINER = """\
#!/bin/sh
shift 3
case "$*" in
"corpus ingest"*) {python} -c "import time; held = b'x' * {bytes}; time.sleep(8)" ;;
esac
exec {python} -m bloomery.cli "$@"
"""
"""Program that jobs run as `apptainer exec IMAGE bloomery ...`. Before `ingest`, a process holds memory for a while."""


@pytest.fixture
def strict_cluster(tmp_path: Path) -> Iterator[SlurmCluster]:
    """Start a cluster that ends jobs which use more memory than they requested."""
    settings = {"JobAcctGatherType": "jobacct_gather/linux", "KillWait": "2"}
    cluster = SlurmCluster(tmp_path / "cluster", nodes=1, settings=settings)
    text = cluster.configuration.read_text()
    assert "Nodes=node[1-2]" in text
    cluster.configuration.write_text(text.replace("Nodes=node[1-2]", "Nodes=ALL"))
    with cluster:
        yield cluster


def test_a_data_job_that_exceeds_its_memory_is_retried_with_twice_the_memory(
    strict_cluster: SlurmCluster, tmp_path: Path
) -> None:
    folder, programs = tmp_path / "run", tmp_path / "programs"
    for each in (folder, programs):
        each.mkdir()
    (programs / "apptainer").write_text(APPTAINER.format(python=sys.executable, bytes=INGEST_MB * 1_000_000))
    (programs / "apptainer").chmod(0o755)
    path = f"{programs}:{strict_cluster.environment['PATH']}"
    workflow = slurm_workflow(strict_cluster, folder, ONE_SHARD, site={"container": "image.sif"}, PATH=path)
    try:
        workflow.run("runs/tiny/corpus/raw/texts/00000.parquet")
    finally:
        end_workflows(folder)
    shown = strict_cluster.run("scontrol", "show", "job", "--oneliner").stdout.splitlines()
    fields = re.compile(r"JobState=(\S+).* TimeLimit=(\S+).* MinMemoryNode=(\d+)M")
    jobs = [match.groups() for line in shown if "ingest" in line and (match := fields.search(line))]
    assert jobs == [
        ("FAILED", "00:11:00", str(INGEST_MB)),
        ("COMPLETED", "00:22:00", str(2 * INGEST_MB)),
    ]


def test_a_site_that_the_cluster_cannot_serve_is_refused_before_the_first_job(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    training = {
        "partition": "long",
        "ranks_per_node": 1,
        "gpus_per_node": 1,
        "constraint": "a100",
        "memory_mb_per_node": 70000,
        "max_minutes": 7000,
    }
    config = TINY | {"training": {**TINY["training"], "parallel": {"tensor": 2, "pipeline": 2}}}
    workflow = slurm_workflow(cluster, tmp_path, config, site={"jobs": {"partition": "none"}, "training": training})
    talk = workflow.run(expect=2)
    listed = [line.strip() for line in talk.splitlines() if line.strip().startswith("- ")]
    assert listed == [
        "- jobs.partition: sinfo shows no partition 'none', so choose one of main, long",
        "- training.constraint: no node of partition 'long' has the feature 'a100'; the features of its nodes: none",
        "- training.memory_mb_per_node: 70000 MB, but a node of partition 'long' has 64000 MB, so set at most 64000",
        "- training.max_minutes: 7000, but a job in partition 'long' may run for at most 6000 minutes, so set at most "
        "6000",
    ]
    assert "the cluster 'test' would refuse jobs of this run" in talk
    # Two of the four nodes are in partition `long`, and each runs one of the four processes.
    fitting = {"partition": "long", "ranks_per_node": 1, "gpus_per_node": 1}
    workflow = slurm_workflow(cluster, tmp_path, config, site={"training": fitting})
    assert "training.parallel: training jobs request 4 nodes with 1 GPUs" in workflow.run(expect=2)
    assert str(tmp_path) not in cluster.squeue("--noheader", "--states=all", "--format=%Z")
