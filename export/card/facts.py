"""Collect the facts about a run that the model card states.

Everything comes from the run's own files. If a file is missing, the card leaves out its facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.contracts.index_manifest import IndexManifest, read_index_manifest
from bloomery.contracts.metrics_record import EnergyRecord, MetricsRecord, ValidationRecord
from bloomery.contracts.read_metrics import total_energy, valid_records
from bloomery.contracts.resume_policy import saved_stage
from bloomery.contracts.stale_artefacts import TRAINING, Stale, stale_artefacts
from bloomery.spec.transformers_families.choose import family_for_export
from bloomery.spec.weight_files import export_dtype, rounded_dtype
from export.card.hardware import Hardware, read_hardware

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.stages import ExportStage, TrainStage
    from bloomery.config.training import TrainingConfig
    from bloomery.contracts.checkpoint import CheckpointManifest
    from bloomery.contracts.paths import RunPaths
    from bloomery.spec.transformers_families.family import Family
    from export.proof.comparison import Comparison

CODE = "code"
_LANGUAGE_FACTS = ("documents", "bytes", "share", "weight")


@dataclass(frozen=True)
class CardFacts:
    """Facts of the exported model that the card needs in addition to the run's files."""

    stage: ExportStage
    manifest: CheckpointManifest
    checkpoint: str
    parameters: int
    vocabulary_rows: int
    comparison: Comparison
    made_from: Mapping[str, str] = field(default_factory=dict)
    """Digest of each input of the export (`bloomery.contracts.lineage.export_inputs`)."""

    @cached_property
    def trained_stage(self) -> TrainStage:
        """The training's part of the configuration, as the checkpoint records it."""
        return saved_stage(self.manifest)

    @property
    def trained(self) -> TrainingConfig:
        """Settings of the training, as the checkpoint records them."""
        return self.trained_stage.training

    @property
    def model(self) -> ModelConfig:
        """Architecture and size of the network."""
        return self.stage.model

    @property
    def dtype(self) -> str:
        """Data type of the exported weights, such as `bfloat16`."""
        return export_dtype(self.stage.export, self.trained.precision)

    @property
    def rounded_to(self) -> str | None:
        """Data type of the training's weights if their fp32 master weights are exported, otherwise None."""
        return rounded_dtype(self.stage.export, self.trained.precision)

    @property
    def family(self) -> Family:
        """Family of transformers models to which the exported model belongs."""
        return family_for_export(self.model)


@dataclass(frozen=True)
class RunRecords:
    """Records of the run until the exported checkpoint. An empty or None field means that the file is missing."""

    languages: dict[str, dict[str, Any]] | None
    """Facts of each language of the corpus with a weight above 0 (corpus/mixture.json)."""
    index: IndexManifest | None
    """Manifest of the token index, which states what the training reads."""
    steps: list[MetricsRecord]
    """Valid records of the iterations, in order."""
    validations: list[ValidationRecord]
    """Valid records of the validations, in order."""
    energy: EnergyRecord | None
    """Energy and CO2 of all segments until the checkpoint."""
    hardware: Hardware | None
    """Devices and hours of the training. None if metrics.jsonl is missing."""
    recipe: dict[str, dict[str, Any]]
    """Sections of the configuration of the data stages, by the section's name."""
    stale: Stale | None
    """Reason why the training is older than its inputs; None if it is up to date."""

    @property
    def all_languages(self) -> list[str]:
        """Languages of the corpus and of the token index. Only the index has the languages of adopted token files."""
        read = self.index.languages if self.index is not None else {}
        return sorted({*(self.languages or {}), *(code for code, entry in read.items() if entry.share > 0)})

    @property
    def has_metrics(self) -> bool:
        """Whether the training recorded any iteration or validation."""
        return bool(self.steps or self.validations)

    @property
    def languages_without_validation(self) -> list[str]:
        """Languages of the training for which the index has no validation set."""
        if self.index is None:
            return []
        trained = {entry.language for entry in self.index.train if entry.samples}
        return sorted(trained - {entry.language for entry in self.index.validation if entry.samples})


RECIPE_SECTIONS = ("judge", "dedup", "clean", "mixture", "count", "tokenizer", "index")
"""Sections of the configuration that are shown as the data recipe, in the order of the stages."""


def read_run_records(paths: RunPaths, last: int) -> RunRecords:
    """Read the records of a run until iteration `last`.

    Raises:
        InputError: a file is damaged. Damaged lines of metrics.jsonl are skipped and reported on stderr.
    """
    metrics = paths.logs / "metrics.jsonl"
    steps, validations = valid_records(metrics) if metrics.is_file() else ([], [])
    return RunRecords(
        languages=corpus_languages(paths),
        index=read_index_manifest(paths.index_manifest) if paths.index_manifest.is_file() else None,
        steps=[record for record in steps if record.iteration <= last],
        validations=[record for record in validations if record.iteration <= last],
        energy=total_energy(metrics, last) if metrics.is_file() else None,
        hardware=read_hardware(paths, last) if metrics.is_file() else None,
        recipe=_recipe(paths),
        stale=stale_artefacts(paths).get(TRAINING),
    )


def _recipe(paths: RunPaths) -> dict[str, dict[str, Any]]:
    found = {}
    for name in RECIPE_SECTIONS:
        path = paths.config / f"{name}.json"
        value = read_json(path) if path.is_file() else None
        if isinstance(value, dict):
            found[name] = value
    return found


def corpus_languages(paths: RunPaths) -> dict[str, dict[str, Any]] | None:
    """Return the facts of each language with a weight above 0, from corpus/mixture.json.

    Return None if the file is missing.

    Raises:
        InputError: the file has no table of languages, or a language lacks a fact.
    """
    path = paths.corpus / "mixture.json"
    if not path.is_file():
        return None
    value = read_json(path)
    languages = value.get("languages") if isinstance(value, dict) else None
    if not isinstance(languages, dict):
        raise InputError(
            "the file has no table of languages",
            where=str(path),
            expected='{"languages": {code: {...}}, ...}; restore this file',
        )
    for code, facts in languages.items():
        numbers = facts if isinstance(facts, dict) else {}
        missing = [key for key in _LANGUAGE_FACTS if not _is_number(numbers.get(key))]
        if missing:
            raise InputError(
                f"the entry of language {code!r} lacks the number{'s' * (len(missing) > 1)} {_quoted(missing)}",
                where=str(path),
                expected=f"the numbers {_quoted(_LANGUAGE_FACTS)} for every language; restore this file",
            )
    return {code: facts for code, facts in sorted(languages.items()) if facts["weight"] > 0}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"{key!r}" for key in keys)
