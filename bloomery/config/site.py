"""The properties of one cluster: accounts, partitions, the shape of a node.

They are never part of a run, because a run can move between sites. `bloomery cluster init` writes them to the site
file. The site file is the file that BLOOMERY_SITE names, otherwise `site.yaml` in the folder where the workflow starts,
otherwise `~/.config/bloomery/site.yaml`. Without a site file, SLURM's own defaults apply.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from bloomery.base.errors import ConfigError
from bloomery.config.load import validate
from bloomery.config.section import Count, Positive, Section
from bloomery.config.yaml_text import read_yaml

SITE_VARIABLE = "BLOOMERY_SITE"
SITE_NAME = "site.yaml"


def _word(value: str) -> str:
    # Values of type `Word` become part of the command lines of sbatch and of a shell.
    if not value or any(character.isspace() or character in "'\"\\`$;&|<>(){}" for character in value):
        raise ValueError("a word without spaces, quotes or special characters of a shell (\\ ` $ ; & | < > ( ) { })")
    return value


Word = Annotated[str, AfterValidator(_word)]
"""A name that the site defines, such as an account, a partition, a module or a path."""


class JobTarget(Section):
    """SLURM options with which jobs are submitted. An option whose key is null is not passed to SLURM."""

    account: Word | None = None
    """SLURM account that is charged for the jobs. Default (null): the site's `account`."""
    partition: Word | None = None
    """SLURM partition of the jobs, or several partitions separated by commas (`a,b`). Default (null): the cluster's
    default partition."""
    qos: Word | None = None
    """SLURM's quality of service (QoS) of the jobs. Default (null): SLURM's default QoS."""
    constraint: Word | None = None
    """Features that a node must have, in the syntax of SLURM's `--constraint`. Default (null): any node."""
    max_minutes: Positive | None = None
    """Longest time limit that the partition or QoS allows, in minutes. Jobs never request more. Default (null): each
    job requests the time that its Snakemake rule states."""
    max_memory_mb: Positive | None = None
    """Most main memory that a job may request on a node, in MB. A data job that failed is retried with twice the
    memory, up to this limit. Default (null): no limit."""


class TrainingTarget(JobTarget):
    """Nodes on which training jobs run. On each node, one `torchrun` starts the processes of the training."""

    max_minutes: Positive = 1200
    """Time limit of a training job, in minutes. The job saves a checkpoint and ends before the limit, and the next job
    resumes the training from the checkpoint."""
    gpus_per_node: Count = 0
    """Number of GPUs to use on each node. Each GPU has one process of the training. 0: train on CPUs."""
    ranks_per_node: Positive | None = None
    """Number of processes of the training on each node. Default (null): `gpus_per_node`; if that is 0, all processes
    run on one node."""
    cpus_per_node: Positive | None = None
    """Number of CPUs to request on each node. Default (null): the number of processes on the node, times
    `training.threads_per_rank` of the run's configuration."""
    memory_mb_per_node: Positive | None = None
    """Main memory to request on each node, in MB. Default (null): an estimate from the size of the model."""
    exclusive: bool = False
    """Request whole nodes, which no other job can use (SLURM's `--exclusive`)."""
    gres: Word | None = None
    """SLURM's request for the GPUs of a node (`--gres`). Default (null): `gpu:<n>`, where n is the number of processes
    on the node, at most `gpus_per_node`."""


class Site(Section):
    """The properties of one cluster."""

    account: Word | None = None
    """SLURM account that is charged for all jobs, unless `jobs`, `training` or `internet` states its own."""
    jobs: JobTarget = JobTarget()
    """SLURM options of all jobs except training: corpus, tokenizer, index and export."""
    training: TrainingTarget = TrainingTarget()
    """SLURM options and nodes of the training jobs."""
    internet: Annotated[JobTarget | None, Field(examples=[{"partition": "transfer"}])] = None
    """SLURM options of the jobs that access the Hub with the token that `hf auth login` stored. If this key is null
    (the default) or HF_TOKEN is set, these jobs run on the machine where the workflow was started."""
    modules: Annotated[list[Word], Field(examples=[["cuda/12.4"]])] = []
    """Environment modules that every job loads, in this order."""
    container: Word | None = None
    """Path of the Apptainer image in which jobs run their programs. Default (null): no container."""
    container_options: Annotated[list[Word], Field(examples=[["--nv", "--bind=/scratch"]])] = []
    """Options of `apptainer exec`, such as `--nv` or `--bind=/scratch`."""
    scratch: Word | None = None
    """Fast folder for temporary files: TMPDIR and the compiler caches of the jobs. Each job uses the subfolder
    `bloomery-$USER`. If this subfolder does not exist, the job creates it with access for this user only. A job fails
    if another user owns the subfolder or may write to it. `${NAME}` is replaced by the value of that environment
    variable. Default (null): each node's own temporary folder."""

    def job_resources(self, place: JobTarget) -> dict[str, str]:
        """Return the resources of Snakemake's SLURM executor that submit a job to `place`."""
        wanted = {
            "slurm_account": place.account or self.account,
            "slurm_partition": place.partition,
            "qos": place.qos,
            "constraint": place.constraint,
        }
        return {key: value for key, value in wanted.items() if value is not None}


def site_path() -> Path | None:
    """Return the path of the site file, or None if no site file was found.

    Raises:
        ConfigError: BLOOMERY_SITE names a file that does not exist.
    """
    if named := os.environ.get(SITE_VARIABLE):
        if not Path(named).is_file():
            raise ConfigError(
                "no such file",
                where=f"{SITE_VARIABLE}={named}",
                expected="the path of a site file, which `bloomery cluster init` writes, or no variable BLOOMERY_SITE",
            )
        return Path(named)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "bloomery" / SITE_NAME
    return next((path for path in (Path(SITE_NAME), home) if path.is_file()), None)


def load_site() -> Site:
    """Load the site file. If there is none, return a site in which every key has its default.

    Raises:
        ConfigError: BLOOMERY_SITE names a file that does not exist, or the site file contains problems.
    """
    path = site_path()
    return Site() if path is None else read_site(path)


def read_site(path: Path) -> Site:
    """Read a site file.

    Raises:
        ConfigError: the file is missing, is not YAML, or contains wrong values, which the error lists.
    """
    return validate(read_yaml(path), Site, where=str(path), example="a site file, which `bloomery cluster init` writes")
