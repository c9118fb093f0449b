"""Gather what a run has produced so far, from its files alone. The facts of a stage that has not run are None."""

from __future__ import annotations

import contextlib
import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.base.json_member import read_member
from bloomery.config.explain_value import wrong_values
from bloomery.config.section import Count
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.parity import PARITY_NAME, read_parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import total_energy, valid_records
from bloomery.contracts.safe_path import read_part_names
from bloomery.contracts.stale_artefacts import find_stale
from bloomery.detect.speed import Speed, speed_of
from bloomery.orchestration.slurm_jobs import workflow_names
from bloomery.orchestration.workflow_command import read_command, rebuild_command, rebuild_target
from monitoring.shared_rows import report_pages


@dataclass(frozen=True)
class CorpusFacts:
    """Facts from the manifests of the raw and the clean shards.

    The first two are None if a manifest of a raw shard was deleted. The others are None if one of a clean shard was.
    """

    documents_in: int | None
    bad_rows: int | None
    documents_out: int | None
    bytes_out: int | None
    languages: int | None
    removed: dict[str, int] | None
    """Number of documents that each rule removed, largest number first."""


@dataclass(frozen=True)
class IndexFacts:
    """Facts from index.json."""

    tokens: int
    train_samples: int
    validation_sets: int


@dataclass(frozen=True)
class TrainingFacts:
    """Facts from metrics.jsonl."""

    iteration: int
    total_iterations: int
    consumed_tokens: int
    first_loss: float | None
    """Loss of the first iteration; None if it was not finite."""
    last_loss: float | None
    """Loss of the last iteration; None if it was not finite."""
    first_validation: float | None
    """Mean loss over the sets in the first validation; None if there was no validation or the mean was not finite."""
    last_validation: float | None
    """Mean loss over the sets in the last validation; None if there was no validation or the mean was not finite."""
    skipped_samples: int
    """Number of samples that were consumed but not trained on."""
    skipped_updates: int
    """Number of iterations that did not change the weights."""
    energy_kwh: float | None
    """Energy of all segments together; None if it was not measured."""
    co2_kg: float | None
    estimated_kwh: float | None
    """Part of `energy_kwh` that was estimated, not measured by a sensor; None if it was not recorded."""
    validation_sets: int
    """Number of sets in the last validation."""
    speed: Speed
    """Speed over all valid iterations. Iterations that were repeated after a restart count once."""


@dataclass(frozen=True)
class ModelFacts:
    """Facts from an exported model's parity.json."""

    name: str
    folder: str
    checkpoint: str
    parameters: int
    bytes: int
    max_difference: float
    tolerance: float
    passed: bool
    generations: list[dict[str, str]]
    """Greedy texts of the model, each with the keys `name`, `prompt` and `text`."""


@dataclass(frozen=True)
class RunSummary:
    """Everything that a run has produced."""

    run: str
    corpus: CorpusFacts | None
    vocabulary_size: int | None
    """Number of entries of the tokenizer."""
    index: IndexFacts | None
    training: TrainingFacts | None
    models: list[ModelFacts]
    published: dict[str, Any] | None
    seconds: dict[str, float]
    """Sum of the run times of each rule's jobs, in seconds, from Snakemake's latest measurements."""
    resume_command: str | None = None
    """Command of the newest workflow, as a user can type it here; None if no workflow recorded it for this folder."""
    on_cluster: bool = False
    """Whether a workflow of this run sent its jobs to SLURM."""
    stale: dict[str, str] = field(default_factory=dict)
    """What each stale artefact is older than, such as `the corpus` (`bloomery.contracts.stale_artefacts`)."""
    rebuild_command: str | None = None
    """Command that builds all stale artefacts again; None if nothing is stale, or if the record of the newest workflow
    is missing or is about a run in another folder."""
    rebuild_target: str | None = None
    """Target of the workflow that builds all stale artefacts again; None if nothing is stale."""
    reports: dict[str, str] = field(default_factory=dict)
    """Path of each report's page by the name of the report: `corpus`, `tokenizer`, `training`."""
    unreadable: list[str] = field(default_factory=list)
    """Files that cannot be read. Artefacts that depend on these files may be stale without being listed in `stale`."""


def gather_summary(run: Path) -> RunSummary:
    """Return the facts of the run in the folder `run`. Raises InputError if a file of the run is damaged."""
    paths = RunPaths(run)
    found = find_stale(paths)
    stale = found.stale
    return RunSummary(
        run=run.as_posix(),
        corpus=_corpus(paths),
        vocabulary_size=_vocabulary_size(paths.tokenizer),
        index=_index(paths),
        training=_training(paths),
        models=[_model(parity.parent) for parity in sorted(paths.export.glob(f"*/{PARITY_NAME}"))],
        published=_published(paths.published),
        seconds=_seconds(run / "benchmarks"),
        resume_command=read_command(paths),
        on_cluster=bool(workflow_names(paths)),
        stale={name: each.older_than for name, each in stale.items()},
        rebuild_command=rebuild_command(paths, stale),
        rebuild_target=rebuild_target(stale),
        reports=report_pages(paths),
        unreadable=found.unreadable_files,
    )


def _corpus(paths: RunPaths) -> CorpusFacts | None:
    if not (paths.corpus / "mixture.json").exists():
        return None
    parts = read_part_names(paths.config / "parts.json")
    if not parts:
        return None  # the run only adopts token files
    raw = _all_counts(paths.corpus / "raw", parts, _RawCounts)
    clean = _all_counts(paths.corpus / "clean", parts, _CleanCounts)
    if raw is None and clean is None:
        return None
    removed: Counter[str] = Counter()
    languages = set()
    for counts in clean or []:
        for language, entry in counts.languages.items():
            removed.update({rule: amount.documents for rule, amount in entry.removed.items()})
            if entry.out.documents:
                languages.add(language)
    return CorpusFacts(
        documents_in=None if raw is None else sum(counts.documents for counts in raw),
        bad_rows=None if raw is None else sum(counts.bad_rows for counts in raw),
        documents_out=None if clean is None else sum(counts.out.documents for counts in clean),
        bytes_out=None if clean is None else sum(counts.out.bytes for counts in clean),
        languages=None if clean is None else len(languages),
        removed=None if clean is None else dict(sorted(removed.items(), key=lambda item: (-item[1], item[0]))),
    )


def _vocabulary_size(folder: Path) -> int | None:
    """Return the number of entries that the record of the tokenizer's training or import states."""
    for name in ("training.json", "origin.json"):
        if (folder / name).is_file():
            return read_member(folder / name, "vocabulary", kind=int)
    return None


class _Amount(BaseModel):
    documents: Count
    bytes: Count = 0


class _LanguageCounts(BaseModel):
    out: _Amount
    removed: dict[str, _Amount]


class _RawCounts(BaseModel):
    """Counts in the manifest of a raw shard that the summary shows."""

    documents: Count
    bad_rows: Count


class _CleanCounts(BaseModel):
    """Counts in the manifest of a clean shard that the summary shows."""

    out: _Amount
    languages: dict[str, _LanguageCounts]


C = TypeVar("C", _RawCounts, _CleanCounts)


def _all_counts(folder: Path, parts: Sequence[str], kind: type[C]) -> list[C] | None:
    """Return the counts of all shards in `folder`; None if a manifest is missing, because users may delete tables."""
    manifests = [folder / f"{part}.json" for part in parts]
    if not all(path.exists() for path in manifests):
        return None
    return [_counts(path, kind) for path in manifests]


def _counts(path: Path, kind: type[C]) -> C:
    value = read_json(path)
    try:
        return kind.model_validate(value.get("counts") if isinstance(value, dict) else None)
    except ValidationError as error:
        raise InputError(
            f"not the manifest of a shard: counts.{wrong_values(error, kind)}",
            where=str(path),
            expected="a manifest that the workflow wrote; delete the file and start the workflow again",
        ) from error


def _index(paths: RunPaths) -> IndexFacts | None:
    if not paths.index_manifest.exists():
        return None
    manifest = read_index_manifest(paths.index_manifest)
    return IndexFacts(
        tokens=sum(entry.tokens for entry in manifest.token_files),
        train_samples=manifest.train_samples,
        validation_sets=len(manifest.validation),
    )


def _training(paths: RunPaths) -> TrainingFacts | None:
    metrics = paths.logs / "metrics.jsonl"
    records, checks = valid_records(metrics) if metrics.exists() else ([], [])
    if not records:
        return None
    means = [record.validation_mean for record in checks]
    energy = total_energy(metrics)
    return TrainingFacts(
        iteration=records[-1].iteration,
        total_iterations=records[-1].total_iterations,
        consumed_tokens=records[-1].consumed_tokens,
        first_loss=records[0].loss,
        last_loss=records[-1].loss,
        first_validation=means[0] if means else None,
        last_validation=means[-1] if means else None,
        skipped_samples=records[-1].skipped_samples,
        skipped_updates=records[-1].skipped_updates,
        energy_kwh=energy.energy_kwh if energy else None,
        co2_kg=energy.co2_kg if energy else None,
        estimated_kwh=energy.estimated_kwh if energy else None,
        validation_sets=len(checks[-1].validation) if checks else 0,
        speed=speed_of(records),
    )


def _model(folder: Path) -> ModelFacts:
    parity = read_parity(folder)
    return ModelFacts(
        name=parity.model,
        folder=folder.as_posix(),
        checkpoint=parity.checkpoint,
        parameters=parity.parameters,
        bytes=sum(entry.bytes for entry in parity.files.values()),
        max_difference=parity.max_difference,
        tolerance=parity.tolerance,
        passed=parity.passed,
        generations=[each.model_dump() for each in parity.generations],
    )


def _published(folder: Path) -> dict[str, Any] | None:
    """Return where model and logs were published, without the lists of files; None if neither was published."""
    model, logs = folder / "publish.json", folder / "logs.json"
    if not model.exists() and not logs.exists():
        return None
    facts: dict[str, Any] = {"target": None, "endpoint": None, "model": None, "logs": None}
    for role, path in (("logs", logs), ("model", model)):
        if path.exists():
            value = read_json(path)
            place = value.get("model", value) if isinstance(value, dict) else None
            found = [value.get("target"), value.get("endpoint")] if isinstance(place, dict) else [None]
            found += [place.get("repository") or place.get("folder")] if isinstance(place, dict) else []
            if found[0] is None or not all(isinstance(text, str | None) for text in found):
                raise InputError(
                    "not a report of what was published",
                    where=str(path),
                    expected="a report that `bloomery publish` or `bloomery sync` wrote; publish again",
                )
            facts |= {"target": found[0], "endpoint": found[1], role: found[2]}
    return facts


def _seconds(folder: Path) -> dict[str, float]:
    """Sum the column `s` of Snakemake's benchmark files, `<rule>.tsv` or `<rule>/<wildcards>.tsv`, by rule."""
    seconds: dict[str, float] = {}
    for path in sorted(folder.rglob("*.tsv")):
        rule = path.relative_to(folder).parts[0].removesuffix(".tsv")
        # A damaged file is read up to the damage. The times after the damage are left out.
        with (
            path.open(newline="", encoding="utf-8", errors="replace") as handle,
            contextlib.suppress(csv.Error, KeyError, TypeError, ValueError),
        ):
            for row in csv.DictReader(handle, delimiter="\t"):
                taken = float(row["s"])
                seconds[rule] = seconds.get(rule, 0.0) + (taken if 0 <= taken < math.inf else 0.0)
    return {rule: round(value, 1) for rule, value in seconds.items()}
