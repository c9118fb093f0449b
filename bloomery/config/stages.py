"""What each job sees of the configuration: its own part, in a JSON file that is written only when its content differs.

That file is the job's input, so a stage runs again exactly when its own part changed (house decision 2).
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

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
from bloomery.config.languages import language_profiles, resolved_thresholds
from bloomery.config.model import ModelConfig
from bloomery.config.run import RunConfig
from bloomery.config.section import Section
from bloomery.config.sources import FileSource, Source
from bloomery.config.tokens import TokenizerConfig
from bloomery.config.training import TrainingConfig
from bloomery.plan.batch import samples_to_read


class IngestStage(Section):
    """One part of one source."""

    source: Source
    """The source."""
    part: int
    """Number of the part within the source."""
    files: list[str] | None
    """Files of the part, in order; null for sources that are not files."""
    ingest: IngestConfig
    """Limits."""


class MeasureStage(Section):
    """Measuring a shard."""

    near: NearDedupConfig
    """MinHash parameters."""
    seed: int
    """Seed of the MinHash permutations."""
    unspaced: list[str]
    """Languages whose words are characters."""


class JudgeStage(Section):
    """Judging a shard's measures."""

    thresholds: dict[str, Thresholds]
    """Resolved limits per language; `default` for any other."""
    accept: dict[str, list[str]]
    """CLD2 codes that count as the language; a language that is absent or empty is not judged by CLD2."""
    trusted_sources: list[str]
    """Sources whose labels are trusted."""
    language_id: LanguageIdConfig
    """Limits of language identification."""


class DedupStage(Section):
    """Deduplication."""

    dedup: DedupConfig
    """Settings."""
    unspaced: list[str]
    """Languages whose words are characters."""
    priorities: dict[str, int]
    """Priority per source."""


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


class CountStage(Section):
    """Counting pre-tokens."""

    pre_tokenizer: str
    """Pre-tokenizer preset."""


class TokenizerStage(Section):
    """Training the tokenizer."""

    tokenizer: TokenizerConfig
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


def ingest_stage(config: RunConfig, source: Source, part: int, files: list[str] | None) -> IngestStage:
    """The part of the configuration that one ingest job sees."""
    if isinstance(source, FileSource):
        source = source.model_copy(update={"paths": ["<see files>"]})
    # Priority, licence and trust are read by later stages: changing them must not read the source again.
    source = source.model_copy(update={"priority": 0, "licence": "", "trust_language": False})
    return IngestStage(source=source, part=part, files=files, ingest=config.corpus.ingest)


def _key_parameters(near: NearDedupConfig) -> NearDedupConfig:
    """What the MinHash keys depend on: whether and how strictly they are used must not measure the corpus again."""
    return NearDedupConfig(**near.model_dump(exclude={"enabled", "min_jaccard"}))


def stage_sections(config: RunConfig) -> dict[str, Section]:
    """Every stage's part by the name of its file (`<name>.json`); ingest parts come from `ingest_stage`."""
    unspaced = sorted(code for code, profile in language_profiles().items() if profile.unspaced)
    training = config.training
    return {
        "measure": MeasureStage(near=_key_parameters(config.corpus.dedup.near), seed=config.seed, unspaced=unspaced),
        "judge": JudgeStage(
            thresholds=resolved_thresholds(config.corpus.judge),
            accept={code: profile.accept for code, profile in language_profiles().items()},
            trusted_sources=sorted(source.name for source in config.sources if source.trust_language),
            language_id=config.corpus.language_id,
        ),
        "dedup": DedupStage(
            dedup=config.corpus.dedup,
            unspaced=unspaced,
            priorities={source.name: source.priority for source in config.sources},
        ),
        "decontaminate": DecontaminateStage(
            **config.corpus.decontaminate.model_dump(exclude={"paths"}), unspaced=unspaced
        ),
        "clean": CleanStage(pii=config.corpus.pii, keep_removed_text=config.corpus.keep_removed_text),
        "mixture": MixtureStage(mixture=config.corpus.mixture),
        "count": CountStage(pre_tokenizer=config.tokenizer.pre_tokenizer),
        "tokenizer": TokenizerStage(tokenizer=config.tokenizer),
        "index": IndexStage(
            sequence_length=config.model.sequence_length,
            train_samples=samples_to_read(training.batch, training.train_samples),
            validation_samples=training.validation.samples,
            validation_share=config.index.validation_share,
            seed=config.seed,
        ),
        "train": TrainStage(name=config.name, seed=config.seed, model=config.model, training=training),
        "export": ExportStage(
            name=config.name,
            model_name=config.model_name,
            export=config.export,
            model=config.model,
            training=training,
            licences={source.name: source.licence for source in config.sources},
        ),
        "publish": PublishStage(name=config.name, model_name=config.model_name, publish=config.publish),
    }


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
