"""A cluster's own facts: accounts, partitions, the shape of a node. Never part of a run: a run moves between sites.

`bloomery cluster init` writes the file. It is looked for in BLOOMERY_SITE, in `site.yaml` where the workflow starts,
then in `~/.config/bloomery/site.yaml`; without one, SLURM's own defaults hold.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from bloomery.base.errors import ConfigError
from bloomery.config.load import read_yaml, validate
from bloomery.config.section import Count, Positive, Section

SITE_VARIABLE = "BLOOMERY_SITE"
SITE_NAME = "site.yaml"


def _word(value: str) -> str:
    # These words become part of a command line of sbatch and of a shell.
    if not value or any(character.isspace() or character in "'\"\\`$;&|<>(){}" for character in value):
        raise ValueError("a word without spaces, quotes and characters that a shell reads")
    return value


Word = Annotated[str, AfterValidator(_word)]
"""A name of the site: account, partition, module, path."""


class JobTarget(Section):
    """Where jobs go; a key that is null is not asked for."""

    account: Word | None = None
    """Account that is charged; null: the site's `account`."""
    partition: Word | None = None
    """Partition (several: `a,b`); null: the cluster's default."""
    qos: Word | None = None
    """Quality of service."""
    constraint: Word | None = None
    """Features that a node must have."""
    max_minutes: Positive | None = None
    """Longest job that the partition or QoS allows; jobs never ask for more."""


class TrainingTarget(JobTarget):
    """Nodes for training: one torchrun a node."""

    max_minutes: Positive = 1200
    """Length of a training job: it saves and ends in time, and the next segment goes on."""
    gpus_per_node: Count = 0
    """GPUs of a node, one process each; 0: train on CPUs."""
    ranks_per_node: Positive | None = None
    """Processes of a node; null: `gpus_per_node`, or all processes on one node where there is no GPU."""
    cpus_per_node: Positive | None = None
    """CPUs asked for on each node; null: `training.threads_per_rank` for each process."""
    memory_mb_per_node: Positive | None = None
    """Main memory asked for on each node, MB; null: an estimate from the size of the model."""
    exclusive: bool = False
    """Ask for whole nodes."""
    gres: Word | None = None
    """How a node's GPUs are asked for; null: `gpu:<gpus_per_node>`."""


class Site(Section):
    """One cluster."""

    account: Word | None = None
    """Account that is charged unless a place names its own."""
    jobs: JobTarget = JobTarget()
    """Everything that is not training: corpus, tokenizer, index, export."""
    training: TrainingTarget = TrainingTarget()
    """Training."""
    internet: JobTarget | None = None
    """Where jobs reach the Hub, with the token of `hf auth login`; null, or with HF_TOKEN: beside the workflow."""
    modules: list[Word] = []
    """Environment modules that every job loads, in order."""
    container: Word | None = None
    """Apptainer image in which jobs run their programs; null: none."""
    container_options: list[Word] = []
    """Options of `apptainer exec`, such as `--nv` or `--bind=/scratch`."""
    scratch: Word | None = None
    """Fast folder for temporary files (TMPDIR and compilers' caches of the jobs); `${NAME}` is replaced."""

    def job_resources(self, place: JobTarget) -> dict[str, str]:
        """Resources of Snakemake's SLURM executor that send a job to `place`."""
        wanted = {
            "slurm_account": place.account or self.account,
            "slurm_partition": place.partition,
            "qos": place.qos,
            "constraint": place.constraint,
        }
        return {key: value for key, value in wanted.items() if value is not None}


def site_path() -> Path | None:
    """The site's file; None when there is none. Raises ConfigError when BLOOMERY_SITE names no file."""
    if named := os.environ.get(SITE_VARIABLE):
        if not Path(named).is_file():
            raise ConfigError(
                "no such file", where=f"{SITE_VARIABLE}={named}", expected="as `bloomery cluster init` wrote"
            )
        return Path(named)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "bloomery" / SITE_NAME
    return next((path for path in (Path(SITE_NAME), home) if path.is_file()), None)


def load_site() -> Site:
    """The site of this machine. Raises ConfigError with every problem of its file."""
    path = site_path()
    return Site() if path is None else read_site(path)


def read_site(path: Path) -> Site:
    """Read a site's file. Raises ConfigError with every problem."""
    return validate(read_yaml(path), Site, where=str(path), example="as `bloomery cluster init` writes it")
