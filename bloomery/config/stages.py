"""The part of the configuration that each job sees, in a JSON file that is rewritten only if its content changes.

That file is an input of the job, so a stage reruns exactly when its own part has changed.
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
from bloomery.config.explain_value import wrong_values
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
    """Files of the part, in order. None if the source is not made of files."""
    piece: FilePiece | None = None
    """Piece of the only file that the part reads. None if the part reads its files whole."""
    ingest: IngestConfig
    """Size limits."""


class AdoptStage(Section):
    """One pair of existing token files."""

    source: MegatronSource
    """The source."""
    part: int
    """Number of the pair within the source."""
    files: list[str]
    """The pair's `.idx` and `.bin` files."""


class LinesStage(Section):
    """Counting the lines of a shard, and removing the repeated lines from it."""

    min_characters: int
    """Lines shorter than this many characters are never removed."""
    partitions: int
    """Number of partitions of the line counts."""
    untouched: list[str]
    """Languages whose documents are not changed (`code`)."""


class RepeatedLinesStage(Section):
    """Finding the repeated lines of each source."""

    min_documents: dict[str, int]
    """Source -> number of different documents that make a line a repeated line."""
    partitions: int
    """Number of partitions of the line counts."""
    memory_bytes: int
    """Memory limit of a job, in bytes."""


class DetectorStage(Section):
    """The models of language identification."""

    fallback_model: str | None = None
    """Path of the n-gram model. None if the shipped model is used."""
    fasttext_model: str | None = None
    """Path of the fastText model. None if CLD2 is used."""
    digests: list[str] = []
    """Digests of the model files. A changed model reruns the measuring."""


class MeasureStage(Section):
    """Measuring a shard."""

    detector: DetectorStage = DetectorStage()
    """Language identification."""
    near: NearDedupConfig
    """MinHash parameters."""
    seed: int
    """Seed of the MinHash permutations."""
    unspaced: list[str]
    """Languages whose characters count as words."""
    words: dict[str, WordLists] = {}
    """Language -> stop words and flagged words."""
    scripts: dict[str, list[str]] = {}
    """Language -> names of its scripts. A language that is absent or has an empty list may use any script."""
    licence_fields: dict[str, str] = {}
    """Source -> field that holds a row's licence, for sources whose rows state one."""


class JudgeStage(Section):
    """Judging the measures of a shard."""

    thresholds: dict[str, Thresholds]
    """Language -> effective limits. `default` applies to all other languages."""
    accept: dict[str, list[str]]
    """Language -> detector codes that count as this language. A language that is absent or has an empty list skips the
    language check."""
    trusted_sources: list[str]
    """Sources whose language labels are trusted."""
    language_id: LanguageIdConfig
    """Limits of language identification."""
    code_licences: list[str] = []
    """Licences whose code is kept. Empty: licences are not checked."""
    source_licences: dict[str, str] = {}
    """Source -> licence, for sources whose rows do not state their own."""
    recipes: dict[str, dict[str, Thresholds]] = {}
    """Recipe -> language -> effective limits, including `default`, for each recipe that a source uses."""
    recipe_of: dict[str, str] = {}
    """Source -> recipe, for sources that use one."""

    def limits(self, source: str, language: str) -> Thresholds:
        """Return the limits that apply to a source's documents in a language."""
        table = self.recipes[self.recipe_of[source]] if source in self.recipe_of else self.thresholds
        return table.get(language) or table["default"]


class DedupStage(Section):
    """Deduplication."""

    dedup: DedupConfig
    """Settings."""
    unspaced: list[str]
    """Languages whose characters count as words."""
    priorities: dict[str, int]
    """Source -> priority."""
    seed: int
    """Seed of the MinHash permutations. It equals the seed of `measure`."""


class DecontaminateStage(Section):
    """Searching a shard for evaluation texts."""

    text_fields: list[str]
    """Fields of an evaluation item whose text is searched for."""
    id_field: str | None
    """Field that names an item. None if file name and line number name it."""
    word_ngram: int
    """Number of words in an n-gram."""
    character_ngram: int
    """Number of characters in an n-gram, for scripts without spaces."""
    min_hits: int
    """Minimum number of different n-grams that a removed document shares with the evaluation texts."""
    unspaced: list[str]
    """Languages whose characters count as words."""


class CleanStage(Section):
    """Writing the clean shards."""

    pii: PiiConfig
    """Replacement of personal data."""
    keep_removed_text: bool
    """Whether the shards of removed documents contain their text."""


class MixtureStage(Section):
    """Mixture of languages."""

    mixture: MixtureConfig
    """Settings."""
    source_weights: dict[str, float] = {}
    """Source -> factor on its bytes within a language, for sources that state a weight."""
    budget_bytes: int | None = None
    """Bytes of text that the training reads. None if the mixture does not depend on the number."""


class CountStage(Section):
    """Counting pre-tokens."""

    pre_tokenizer: Literal["bloom", "modern"]
    """Preset of the pre-tokenizer."""
    split_digits: bool = False
    """Whether every digit is a piece of its own."""


class TokenizerStage(Section):
    """Training or importing the tokenizer."""

    tokenizer: TokenizerTraining
    """Settings."""


class TokenizerReportStage(Section):
    """Reporting on the tokenizer and checking it."""

    report: TokenizerReportConfig
    """Settings."""


class IndexStage(Section):
    """Building the index."""

    sequence_length: int
    """Number of tokens in a sample."""
    train_samples: int
    """Number of samples that training will read. They fill whole batches."""
    validation_samples: int
    """Maximum number of samples in a validation set."""
    validation_share: float
    """Share of the documents that is held out for validation."""
    seed: int
    """Seed of the shuffles."""
    blend: list[BlendStage] = []
    """Stages of the blend. Empty: one stage with the mixture's weights."""
    order: Literal["epochs", "megatron"] = "epochs"
    """Order of the training documents and samples."""


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
    """Exporting the model."""

    name: str
    """Name of the run."""
    model_name: str
    """Name of the exported model."""
    export: ExportConfig
    """Settings."""
    model: ModelConfig
    """Network."""
    training: TrainingConfig
    """Training settings, for the model card."""
    licences: dict[str, str]
    """Source -> licence, for the model card."""


class PublishStage(Section):
    """Publishing the model and the logs."""

    name: str
    """Name of the run."""
    model_name: str
    """Name of the exported model."""
    publish: PublishConfig
    """Settings."""


def write_stage(path: Path, section: Section) -> bool:
    """Write a stage's part if its content differs from the file. Return True if the file was written."""
    return write_if_changed(path, dump_json(section.model_dump(mode="json")))


S = TypeVar("S", bound=Section)


def read_stage(path: Path, kind: type[S]) -> S:
    """Read a stage's part.

    Raises:
        InputError: the file is missing, or is not a part of this kind.
    """
    try:
        return kind.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"is not the configuration of this stage: {wrong_values(error, kind)}",
            where=str(path),
            expected=f"a {kind.__name__} that the workflow wrote under runs/<name>/config/",
        ) from error
