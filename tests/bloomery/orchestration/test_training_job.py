"""Test the flags of sbatch for a training job, as Snakemake's SLURM executor writes them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from repository import ROOT
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import set_gres_string
from snakemake_executor_plugin_slurm.validation import validate_slurm_extra

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import load_config
from bloomery.config.run import RunConfig
from bloomery.config.site import Site
from bloomery.orchestration.training_job import launch_options, training_job


class Resources(dict):
    """Provide resources as items and attributes, as a job of Snakemake does."""

    __getattr__ = dict.__getitem__


def config(tensor: int, pipeline: int, data: int) -> RunConfig:
    sample = load_config(ROOT / "config/sample.yaml").model_dump()
    sample["training"]["parallel"] = {"tensor": tensor, "pipeline": pipeline, "data": data}
    sample["training"]["batch"] = {"micro_batch_size": 1, "global_batch_size": 64}
    sample["model"]["layers"] = 12
    return RunConfig.model_validate(sample)


def flags(job, **more) -> list[str]:
    resources = Resources(job.resources(**more))
    snakemake_job = SimpleNamespace(
        resources=resources, threads=1, name="train_segment", rule=None, is_group=lambda: False
    )
    validate_slurm_extra(snakemake_job)
    params = {
        "run_uuid": "u",
        "slurm_logfile": "l",
        "comment_str": "c",
        "account": "",
        "partition": "",
        "workdir": None,
    }
    command = get_submit_command(snakemake_job, params) + set_gres_string(snakemake_job)
    known = ("--export", "--job-name", "--output", "--comment", "--parsable", "sbatch")
    return [word for word in command.split() if not word.startswith(known) and word not in "ulc"]


@pytest.mark.parametrize(("layout", "nodes"), [((2, 4, 1), 1), ((4, 4, 1), 2), ((4, 4, 2), 4), ((4, 12, 8), 48)])
def test_a_job_with_gpus_has_one_task_and_all_gpus_on_each_node(layout, nodes):
    site = Site.model_validate({"training": {"gpus_per_node": 8, "cpus_per_node": 64, "memory_mb_per_node": 480000}})
    assert flags(training_job(config(*layout), site)) == [
        *("-t", "1200", "--mem", "480000", f"--nodes={nodes}", "--cpus-per-task=64"),
        *("--ntasks-per-node=1", "--open-mode=append", "--requeue", "--gres=gpu:8"),
    ]


@pytest.mark.parametrize(("layout", "nodes"), [((2, 1, 1), 1), ((2, 2, 1), 2), ((2, 2, 2), 4), ((2, 12, 4), 48)])
def test_a_job_without_gpus_has_as_many_tasks_as_nodes(layout, nodes):
    site = Site.model_validate({"training": {"ranks_per_node": 2, "max_minutes": 6000, "memory_mb_per_node": 9000}})
    assert flags(training_job(config(*layout), site)) == [
        *("-t", "6000", "--mem", "9000", f"--nodes={nodes}", f"--ntasks={nodes}", "--cpus-per-task=2"),
        *("--ntasks-per-node=1", "--open-mode=append", "--requeue"),
    ]


def test_a_small_layout_requests_only_the_gpus_that_it_uses():
    job = training_job(config(2, 1, 1), Site.model_validate({"training": {"gpus_per_node": 8}}))
    assert (job.nodes, job.ranks_per_node, job.gres) == (1, 2, "gpu:2")


def test_the_launcher_gets_the_same_number_of_nodes_as_sbatch():
    job = training_job(config(4, 4, 2), Site.model_validate({"training": {"gpus_per_node": 8, "cpus_per_node": 64}}))
    options = launch_options(job.nodes, job.ranks_per_node, job.cpus_per_node)
    assert options == ["--nodes", "4", "--ranks-per-node", "8", "--cpus-per-node", "64"]


def test_a_job_may_request_a_dependency_and_exclusive_nodes():
    site = Site.model_validate({"account": "abc", "training": {"exclusive": True, "partition": "gpu_p1", "qos": "t3"}})
    job = training_job(config(2, 1, 1), site)
    assert {"--exclusive", "--dependency=afterany:17"} <= set(flags(job, dependency="afterany:17"))
    assert "--exclude=node3,node7" in flags(job, exclude="--exclude=node3,node7")
    assert job.place == {"slurm_account": "abc", "slurm_partition": "gpu_p1", "qos": "t3"}


def test_a_layout_that_does_not_fill_its_nodes_is_refused():
    said = "= 6 processes do not fill nodes of 4 processes each; expected: a multiple of 4 processes"
    with pytest.raises(ConfigError, match=said):
        training_job(config(2, 3, 1), Site.model_validate({"training": {"ranks_per_node": 4}}))


def test_a_job_that_is_shorter_than_the_margin_is_refused():
    with pytest.raises(ConfigError, match="a job of 5 minutes leaves no time to train before the margin of 5 minutes"):
        training_job(config(2, 1, 1), Site.model_validate({"training": {"max_minutes": 5}}))
