"""What each job sees of the configuration: its own part, in a JSON file that is written only when its content differs.

That file is the job's input, so a stage runs again exactly when its own part changed (house decision 2).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from bloomery.base.atomic import dump_json, read_json, write_if_changed
from bloomery.base.errors import InputError
from bloomery.config.corpus import (
    DedupConfig,
    IngestConfig,
    LanguageIdConfig,
    MixtureConfig,
    NearDedupConfig,
    PiiConfig,
    Thresholds,
)
from bloomery.config.delivery import ExportConfig, PublishConfig
from bloomery.config.model import ModelConfig
from bloomery.config.part_input import FilePiece
from bloomery.config.section import Section
from bloomery.config.sources import MegatronSource, Source
from bloomery.config.tokenizer_report import TokenizerReportConfig
from bloomery.config.tokens import BlendStage, TokenizerTraining
from bloomery.config.training import TrainingConfig
from bloomery.config.words import WordLists


class IngestStage(Section):
    """One part of one source."""

    source: Source
    """The source."""
    part: int
    """Number of the part within the source."""
    files: list[str] | None
    """Files of the part, in order; null for sources that are not files."""
    piece: FilePiece | None = None
    """The piece of its one file that the part is; null: its files are read whole."""
    ingest: IngestConfig
    """Limits."""


class AdoptStage(Section):
    """One pair of token files that came as they are."""

    source: MegatronSource
    """The source."""
    part: int
    """Number of the pair within the source."""
    files: list[str]
    """Its `.idx` and its `.bin`."""


class LinesStage(Section):
    """The lines of a shard: counting them, and taking the repeated ones out."""

    min_characters: int
    """Shorter lines always stay."""
    partitions: int
    """Partitions of the count."""
    untouched: list[str]
    """Languages whose documents stay as they are: code."""


class RepeatedLinesStage(Section):
    """Which lines are repeated."""

    min_documents: dict[str, int]
    """Per source, from how many different documents on."""
    partitions: int
    """Partitions of the count."""
    memory_bytes: int
    """What a job may hold."""


class DetectorStage(Section):
    """What identifies languages."""

    fallback_model: str | None = None
    """n-gram model; null: the shipped one."""
    fasttext_model: str | None = None
    """fastText model; null: CLD2."""
    digests: list[str] = []
    """Of these models' files: another model measures again."""


class MeasureStage(Section):
    """Measuring a shard."""

    detector: DetectorStage = DetectorStage()
    """Language identification."""
    near: NearDedupConfig
    """MinHash parameters."""
    seed: int
    """Seed of the MinHash permutations."""
    unspaced: list[str]
    """Languages whose words are characters."""
    words: dict[str, WordLists] = {}
    """Stop words and flagged words per language."""
    scripts: dict[str, list[str]] = {}
    """Scripts per language; a language that is absent or empty may have any."""
    licence_fields: dict[str, str] = {}
    """Per source whose rows state their licence: the field that does."""


class JudgeStage(Section):
    """Judging a shard's measures."""

    thresholds: dict[str, Thresholds]
    """Resolved limits per language; `default` for any other."""
    accept: dict[str, list[str]]
    """Detectors' codes that count as the language; a language that is absent or empty is not judged by them."""
    trusted_sources: list[str]
    """Sources whose labels are trusted."""
    language_id: LanguageIdConfig
    """Limits of language identification."""
    code_licences: list[str] = []
    """Licences whose code is kept; empty: not judged."""
    source_licences: dict[str, str] = {}
    """Licence of each source whose rows do not state their own."""
    recipes: dict[str, dict[str, Thresholds]] = {}
    """Resolved limits per language, `default` included, of each recipe that a source follows."""
    recipe_of: dict[str, str] = {}
    """The recipe of each source that follows one."""

    def limits(self, source: str, language: str) -> Thresholds:
        """The limits that a source's documents of a language are held to."""
        table = self.recipes[self.recipe_of[source]] if source in self.recipe_of else self.thresholds
        return table.get(language) or table["default"]


class DedupStage(Section):
    """Deduplication."""

    dedup: DedupConfig
    """Settings."""
    unspaced: list[str]
    """Languages whose words are characters."""
    priorities: dict[str, int]
    """Priority per source."""
    seed: int
    """Seed of the MinHash permutations: that of `measure`."""


class DecontaminateStage(Section):
    """Looking for evaluation texts in a shard."""

    text_fields: list[str]
    """Fields of an evaluation item that are looked for."""
    id_field: str | None
    """Field that names an item."""
    word_ngram: int
    """Words of an n-gram."""
    character_ngram: int
    """Characters of an n-gram in unspaced scripts."""
    min_hits: int
    """Least number of hits."""
    unspaced: list[str]
    """Languages whose words are characters."""


class CleanStage(Section):
    """Writing the clean shards."""

    pii: PiiConfig
    """Redaction."""
    keep_removed_text: bool
    """Whether the shards of removed documents hold their text."""


class MixtureStage(Section):
    """Mixture of languages."""

    mixture: MixtureConfig
    """Settings."""
    source_weights: dict[str, float] = {}
    """Sources with a weight of their own: factor on their bytes within a language."""
    budget_bytes: int | None = None
    """Text that the training reads, as far as the mixture asks; None when it does not."""


class CountStage(Section):
    """Counting pre-tokens."""

    pre_tokenizer: Literal["bloom", "modern"]
    """Pre-tokenizer preset."""
    split_digits: bool = False
    """Whether every digit is a piece of its own."""


class TokenizerStage(Section):
    """Training the tokenizer, or importing it."""

    tokenizer: TokenizerTraining
    """Settings."""


class TokenizerReportStage(Section):
    """Reporting on the tokenizer and checking it."""

    report: TokenizerReportConfig
    """Settings."""


class IndexStage(Section):
    """Building the index."""

    sequence_length: int
    """Tokens in a sample."""
    train_samples: int
    """Samples that training will read: whole batches."""
    validation_samples: int
    """Greatest number of samples in a validation set."""
    validation_share: float
    """Share of documents held out."""
    seed: int
    """Seed of the shuffles."""
    blend: list[BlendStage] = []
    """Stages of the blend; empty: one, with the mixture's weights."""
    order: Literal["epochs", "megatron"] = "epochs"
    """Of the training's documents and samples."""


class TrainStage(Section):
    """Training."""

    name: str
    """Name of the run."""
    seed: int
    """Seed."""
    model: ModelConfig
    """Network."""
    training: TrainingConfig
    """Training."""


class ExportStage(Section):
    """Exporting."""

    name: str
    """Name of the run."""
    model_name: str
    """Name of the exported model."""
    export: ExportConfig
    """Settings."""
    model: ModelConfig
    """Network."""
    training: TrainingConfig
    """Training, for the model card."""
    licences: dict[str, str]
    """Licence per source, for the model card."""


class PublishStage(Section):
    """Publishing."""

    name: str
    """Name of the run."""
    model_name: str
    """Name of the exported model."""
    publish: PublishConfig
    """Settings."""


def write_stage(path: Path, section: Section) -> bool:
    """Write a stage's part when its content differs; True if written."""
    return write_if_changed(path, dump_json(section.model_dump(mode="json")))


S = TypeVar("S", bound=Section)


def read_stage(path: Path, kind: type[S]) -> S:
    """Read a stage's part. Raises InputError when it is missing or not of this kind."""
    try:
        return kind.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"not the configuration of this stage: {error}",
            where=str(path),
            expected=f"a {kind.__name__}, as the workflow writes under runs/<name>/config/",
        ) from error
