"""The plan of a run: everything that the rules need to know before Snakemake builds its graph.

`workflow/rules/common.smk` makes one `RunPlan` in every process of a workflow. To start fast, this module imports
neither pyarrow, numpy nor torch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bloomery.base.errors import TryAgainError
from bloomery.checks.load_config import validate_config
from bloomery.config.run import RunConfig
from bloomery.config.site import JobTarget, Site, load_site
from bloomery.config.tokenizer_report import TokenizerGate
from bloomery.config.yaml_text import read_yaml
from bloomery.contracts.part_names import earlier_parts, refuse_unfinished
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.repair_results import restore_links, set_incomplete_aside
from bloomery.orchestration.data_jobs import part_megabytes
from bloomery.orchestration.plan_parts import evaluation_files, plan_parts
from bloomery.orchestration.prepare_run import Part, plan_run, read_parts, token_groups, write_sections
from bloomery.orchestration.run_lock import RunLock
from bloomery.orchestration.slurm_jobs import online_target
from bloomery.orchestration.tokenizer_origin import local_files
from bloomery.orchestration.training_job import TrainingJob, training_job


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Everything that the rules know about one run."""

    config: RunConfig
    paths: RunPaths
    site: Site
    online: JobTarget | None
    """SLURM settings of jobs that need the Internet; None if such jobs run on the workflow's own machine."""
    training_job: TrainingJob
    lock: RunLock | TryAgainError | None
    """Lock of the run, or the error if another workflow holds the lock; None in a job of the workflow."""
    parts: list[Part]
    """Every shard of text in order, then every adopted pair of token files."""
    evaluation_files: list[str]
    """Files of evaluation texts that the corpus must not contain."""
    tokenizer_files: list[Path]
    """Local files of the existing tokenizer; empty for a tokenizer on a Hub or one that the run trains."""
    references_are_local: bool
    """Whether every tokenizer that the report compares is on this machine."""
    earlier_parts: list[str]
    """Names of the shards of earlier runs that the corpus must not repeat."""

    @cached_property
    def text_parts(self) -> list[Part]:
        """The shards of text."""
        return [part for part in self.parts if not part.adopted]

    @cached_property
    def adopted_parts(self) -> list[Part]:
        """The pairs of token files that the run adopts unchanged."""
        return [part for part in self.parts if part.adopted]

    @cached_property
    def token_groups(self) -> dict[str, list[str]]:
        """Names of the shards that each encoded pair of token files holds, in order, by the pair's name."""
        return token_groups(self.text_parts, self.config.index.shards_per_file)

    @property
    def dedup_shards(self) -> list[str]:
        """Names of the shards that are searched for duplicates: the run's own, then those of earlier runs."""
        return [part.name for part in self.text_parts] + self.earlier_parts

    @property
    def partitions(self) -> range:
        """Numbers of the partitions of the search for duplicates; empty for a run without text."""
        return range(self.config.corpus.dedup.partitions if self.text_parts else 0)

    @property
    def strips_lines(self) -> bool:
        """Whether repeated lines are removed from the texts."""
        return self.config.corpus.lines.enabled and bool(self.text_parts)

    @property
    def line_partitions(self) -> range:
        """Numbers of the partitions of the search for repeated lines; empty if lines are not removed."""
        return range(self.config.corpus.lines.partitions if self.strips_lines else 0)

    @property
    def text_group(self) -> str:
        """Name of Snakemake's group for the jobs that read the texts.

        The group includes the rule that wrote the texts. It includes no rule whose outputs for all shards are needed at
        once, because a group works on single shards. If repeated lines are removed, `ingest` is such a rule.
        """
        return "strip" if self.strips_lines else "read"

    @cached_property
    def part_mb(self) -> dict[str, float]:
        """Estimated text of each part in MB, by the part's name."""
        return part_megabytes(self.config, self.parts)

    @cached_property
    def corpus_mb(self) -> float:
        """Estimated text of all parts in MB."""
        return sum(self.part_mb.values())

    @property
    def tokenizer_gate(self) -> TokenizerGate | None:
        """Limits that the tokenizer must meet; None if there are no limits or no text to measure."""
        return self.config.tokenizer.report.gate if self.text_parts else None


def read_config(given: dict[str, Any], files: Sequence[Path | str]) -> RunConfig:
    """Validate the configuration that Snakemake merged from `files` and its command line.

    The files are parsed once more, because Snakemake's own parser accepts duplicate keys.

    Raises:
        ConfigError: every problem of the configuration in one message.
    """
    for path in files:
        read_yaml(Path(path))
    return validate_config(given, where=", ".join(str(path) for path in files) or "--config")


def make_run_plan(config: RunConfig, *, is_main_process: bool, logger: logging.Logger) -> RunPlan:
    """Plan the run of `config`.

    The main process of a workflow locks the run, plans its parts and writes each stage's section of the configuration.
    The jobs read what the main process wrote.

    Raises:
        BloomeryError: the site, the sources, the tokenizer or an earlier run does not match the configuration.
    """
    paths = RunPaths.of(config.root, config.name)
    site = load_site()
    online = online_target(site)
    job = training_job(config, site)
    lock, parts = _lock_and_plan(config, paths, logger) if is_main_process else (None, read_parts(paths))
    evaluation = evaluation_files(config.corpus.decontaminate)
    existing = config.tokenizer.existing
    tokenizer_files = local_files(existing) if existing else []
    references = [local_files(reference.tokenizer) for reference in config.tokenizer.report.references]
    against = config.corpus.dedup.against
    if is_main_process:
        refuse_unfinished(against, paths.run)
    has_text = any(not part.adopted for part in parts)
    return RunPlan(
        config=config,
        paths=paths,
        site=site,
        online=online,
        training_job=job,
        lock=lock,
        parts=parts,
        evaluation_files=evaluation,
        tokenizer_files=tokenizer_files,
        references_are_local=all(references),
        earlier_parts=earlier_parts(against) if has_text else [],
    )


def _lock_and_plan(
    config: RunConfig, paths: RunPaths, logger: logging.Logger
) -> tuple[RunLock | TryAgainError, list[Part]]:
    """Lock the run, plan its parts and write their sections.

    While another workflow holds the lock, nothing is written, because the jobs of that workflow read those files.
    """
    try:
        lock = RunLock.acquire(paths.run)
    except TryAgainError as error:
        logger.warning(f"{error}; this workflow writes no files of the run")
        return error, read_parts(paths)
    parts = plan_run(config, plan_parts)
    write_sections(config, parts)
    for place in restore_links(paths.results):
        logger.warning(f"{place.shown} had copies of the files in {place.folder}; links have replaced the copies")
    for place in set_incomplete_aside(paths.results):
        logger.warning(
            f"{place.folder}: a file or a link is missing or changed, so the workflow builds this result again"
        )
    paths.control.mkdir(parents=True, exist_ok=True)
    return lock, parts
