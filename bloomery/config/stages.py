"""The section of the configuration that each stage of the workflow reads.

A section is written to a JSON file, which is rewritten only if its content changes. That file is an input of the
stage's jobs, so a stage reruns exactly when its own section has changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from bloomery.base.atomic import dump_json, read_json, write_if_changed
from bloomery.base.errors import InputError
from bloomery.config.alerts import AlertsConfig
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
from bloomery.config.training import BatchConfig, TrainingConfig
from bloomery.config.words import WordLists


class IngestStage(Section):
    """Ingesting one part of one source."""

    source: Source
    """Settings of the source."""
    part: int
    """Number of the part within the source, counted from 0."""
    files: list[str] | None
    """Paths of the files that the part reads, in order. The value is None if the source does not consist of files."""
    piece: FilePiece | None = None
    """The piece to read, if the part reads one piece of one large file. The value is None if the part reads whole
    files."""
    ingest: IngestConfig
    """Limits on the size of a document and of the input of one ingest job."""


class AdoptStage(Section):
    """Adopting one pair of existing token files (`.bin` and `.idx`)."""

    source: MegatronSource
    """Settings of the source."""
    part: int
    """Number of the pair of token files within the source, counted from 0."""
    files: list[str]
    """Paths of the pair's `.idx` file and `.bin` file, in this order."""


class LinesStage(Section):
    """Counting the lines of a shard, and removing the repeated lines from it."""

    min_characters: int
    """Lines shorter than this many characters are never removed."""
    partitions: int
    """Number of partitions into which the counts of lines are divided."""
    untouched: list[str]
    """Languages whose documents are not changed (`code`)."""


class RepeatedLinesStage(Section):
    """Finding the repeated lines of each source."""

    min_documents: dict[str, int]
    """Source -> number of different documents that must contain a line before it counts as a repeated line."""
    partitions: int
    """Number of partitions into which the counts of lines are divided."""
    memory_bytes: int
    """Memory limit of one job that finds repeated lines, in bytes."""


class DetectorStage(Section):
    """The models of language identification."""

    fallback_model: str | None = None
    """Path of the n-gram model that identifies languages which CLD2 lacks. The value is None if the shipped model is
    used."""
    fasttext_model: str | None = None
    """Path of the fastText model that identifies languages. The value is None if CLD2 is used."""
    digests: list[str] = []
    """Digests of the model files. If a model file changes, the documents are measured again."""


class MeasureStage(Section):
    """Measuring a shard."""

    detector: DetectorStage = DetectorStage()
    """Models of language identification."""
    near: NearDedupConfig
    """MinHash parameters."""
    seed: int
    """Seed of the MinHash permutations."""
    unspaced: list[str]
    """Languages without spaces between words. Each character of their text counts as a word."""
    words: dict[str, WordLists] = {}
    """Language -> stop words and flagged words."""
    scripts: dict[str, list[str]] = {}
    """Language -> names of the scripts that its documents may use. A language that is absent or has an empty list may
    use any script."""
    licence_fields: dict[str, str] = {}
    """Source -> name of the field that holds a row's licence, for sources whose rows state a licence."""


class JudgeStage(Section):
    """Comparing the measures of a shard's documents with the limits."""

    thresholds: dict[str, Thresholds]
    """Language -> effective limits on the measures of its documents. `default` applies to all other languages."""
    accept: dict[str, list[str]]
    """Language -> detector codes that count as this language. A language that is absent or has an empty list skips the
    language check."""
    trusted_sources: list[str]
    """Sources whose documents are kept even if their detected language differs from their language label."""
    language_id: LanguageIdConfig
    """Limits of language identification."""
    code_licences: list[str] = []
    """Licences under which source code is kept. If the list is empty, licences are not checked."""
    source_licences: dict[str, str] = {}
    """Source -> licence of its documents, for sources whose rows do not state a licence."""
    recipes: dict[str, dict[str, Thresholds]] = {}
    """Recipe -> language -> effective limits on the measures of documents, for each recipe that a source uses.
    `default` applies to all other languages."""
    recipe_of: dict[str, str] = {}
    """Source -> recipe, for sources that use a recipe."""

    def limits(self, source: str, language: str) -> Thresholds:
        """Return the limits that apply to a source's documents in a language."""
        table = self.recipes[self.recipe_of[source]] if source in self.recipe_of else self.thresholds
        return table.get(language) or table["default"]


class DedupStage(Section):
    """Deduplication."""

    dedup: DedupConfig
    """Settings of the deduplication."""
    unspaced: list[str]
    """Languages without spaces between words. Each character of their text counts as a word."""
    priorities: dict[str, int]
    """Source -> priority. Of two duplicates, the document from the source with the higher priority is kept."""
    seed: int
    """Seed of the MinHash permutations. It equals `MeasureStage.seed`."""


class DecontaminateStage(Section):
    """Searching a shard for evaluation texts."""

    text_fields: list[str]
    """Fields of an evaluation item whose text is searched for in the documents."""
    id_field: str | None
    """Field that holds the id of an evaluation item. The value is None if file name and line number are the id."""
    word_ngram: int
    """Number of words in an n-gram."""
    character_ngram: int
    """Number of characters in an n-gram, for scripts without spaces."""
    min_hits: int
    """A document is removed if it shares at least this many different n-grams with the evaluation texts."""
    unspaced: list[str]
    """Languages without spaces between words. Each character of their text counts as a word."""


class CleanStage(Section):
    """Writing the clean shards."""

    pii: PiiConfig
    """Replacement of personal data."""
    keep_removed_text: bool
    """If true, the shards in `corpus/removed/` also contain the text of the removed documents."""
    strips_lines: bool = False
    """Whether the documents are read from `corpus/stripped`. Like the next key, it is here so that a change of it
    makes the clean texts out of date."""
    decontaminates: bool = False
    """Whether documents that contain evaluation texts are removed."""


class MixtureStage(Section):
    """Mixture of languages."""

    mixture: MixtureConfig
    """Settings of the mixture."""
    source_weights: dict[str, float] = {}
    """Source -> factor on the source's bytes within a language, for sources that state a weight."""
    budget_bytes: int | None = None
    """Estimated number of bytes of text that the training reads. The value is None if the mixture does not depend on
    it."""


class CountStage(Section):
    """Counting pre-tokens."""

    pre_tokenizer: Literal["bloom", "modern"]
    """Name of the rule that splits text into pre-tokens."""
    split_digits: bool = False
    """Whether every digit is a pre-token of its own."""


class TokenizerStage(Section):
    """Training or importing the tokenizer."""

    tokenizer: TokenizerTraining
    """Settings of the tokenizer."""


class TokenizerReportStage(Section):
    """Reporting on the tokenizer and checking it."""

    report: TokenizerReportConfig
    """Settings of the report and of the gate."""


class IndexEpochs(Section):
    """Length of a training that is stated in epochs."""

    train_epochs: float
    """Number of epochs over the training tokens."""
    batch: BatchConfig
    """Batch sizes. The number of samples is rounded down to whole batches."""


class IndexStage(Section):
    """Building the index."""

    sequence_length: int
    """Number of tokens in a sample."""
    train_samples: int
    """Number of samples that the training reads. They fill whole batches. This number is not used if `epochs` states
    the length of the training."""
    epochs: IndexEpochs | None = None
    """Length of the training in epochs. The value is None if `train_samples` states the length."""
    validation_samples: int
    """Maximum number of samples in a validation set."""
    validation_share: float
    """Share of the documents that is held out for validation."""
    seed: int
    """Seed of the shuffles."""
    blend: list[BlendStage] = []
    """Stages of the blend. If the list is empty, the mixture's weights apply to the whole training."""
    order: Literal["epochs", "megatron"] = "epochs"
    """Order of the training documents and samples."""


class InitialWeights(Section):
    """The checkpoint that a training starts with (`training.initial_checkpoint`)."""

    digest: str
    """SHA-256 of the checkpoint's manifest.json, which lists the hashes of all its files."""
    source: str
    """Model that the checkpoint was imported from, such as `owner/name at <commit>`, or the name of its run."""


class TrainStage(Section):
    """Training."""

    name: str
    """Name of the run."""
    seed: int
    """Seed of the training's random numbers."""
    model: ModelConfig
    """Architecture and size of the network."""
    training: TrainingConfig
    """Settings of the training."""
    initial: InitialWeights | None = None
    """Checkpoint that the training starts with. The value is None if the initial weights are random."""


class ExportStage(Section):
    """Exporting the model."""

    name: str
    """Name of the run."""
    model_name: str
    """Name of the exported model."""
    export: ExportConfig
    """Settings of the export."""
    model: ModelConfig
    """Architecture and size of the network."""
    licences: dict[str, str]
    """Source -> licence of its text, for the model card."""


class PublishStage(Section):
    """Publishing the model and the logs."""

    name: str
    """Name of the run."""
    model_name: str
    """Name of the exported model."""
    publish: PublishConfig
    """Settings of the publication."""

    @property
    def model_repository(self) -> str:
        """Name of the repository or local folder of the model."""
        return self.publish.model_repository or self.model_name

    @property
    def logs_repository(self) -> str:
        """Name of the repository or local folder of the logs."""
        return self.publish.logs_repository or f"{self.model_name}-logs"


class AlertsStage(Section):
    """Watching the run and sending alerts."""

    name: str
    """Name of the run."""
    alerts: AlertsConfig
    """Settings of the alerts."""
    sync_minutes: float
    """Minutes between two uploads of the logs (`publish.sync_minutes`)."""


def write_stage(path: Path, section: Section) -> bool:
    """Write a stage's section to `path`, unless the file has this content already. Return True if it was written."""
    return write_if_changed(path, dump_json(section.model_dump(mode="json")))


S = TypeVar("S", bound=Section)


def read_stage(path: Path, kind: type[S]) -> S:
    """Read a stage's section from `path`.

    Raises:
        InputError: the file is missing, or does not contain a section of this type.
    """
    try:
        return kind.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"not the configuration that the workflow writes for this stage ({kind.__name__}): "
            f"{wrong_values(error, kind)}",
            where=str(path),
            expected="a file that the workflow wrote to runs/<name>/config/; start the workflow again to rewrite it",
        ) from error
