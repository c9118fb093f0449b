"""Derive each stage's section from the configuration: only the values that the stage depends on."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.digest import digest_ends
from bloomery.base.errors import ConfigError
from bloomery.config.corpus import LanguageIdConfig, NearDedupConfig
from bloomery.config.languages import CODE, SHIPPED_FALLBACK, language_profiles, resolved_thresholds, resolved_words
from bloomery.config.part_input import FilePiece
from bloomery.config.run import RunConfig
from bloomery.config.section import Section
from bloomery.config.sources import FileSource, HubSource, MegatronSource, RowSource, Source
from bloomery.config.stages import (
    AdoptStage,
    AlertsStage,
    CleanStage,
    CountStage,
    DecontaminateStage,
    DedupStage,
    DetectorStage,
    ExportStage,
    IndexEpochs,
    IndexStage,
    IngestStage,
    JudgeStage,
    LinesStage,
    MeasureStage,
    MixtureStage,
    PublishStage,
    RepeatedLinesStage,
    TokenizerReportStage,
    TokenizerStage,
    TrainStage,
)
from bloomery.config.training import UNKNOWN_SAMPLES, TrainingConfig
from bloomery.contracts.initial_checkpoint import initial_weights
from bloomery.spec.batch import samples_to_read

BYTES_PER_TOKEN = 4.7
"""Mean bytes per token of BLOOM's tokenizer on ROOTS: 1.6 TB of text (BLOOM's paper, table 1) are 341.6 B tokens."""


def ingest_stage(
    config: RunConfig, source: Source, part: int, files: list[str] | None, piece: FilePiece | None = None
) -> IngestStage:
    """Return the section of the configuration that one ingest job reads."""
    if isinstance(source, FileSource):
        source = source.model_copy(update={"paths": ["<see files>"]})
    # Only later stages read these values, so changing them must not ingest the source again.
    later: dict[str, object] = {"priority": 0, "licence": "", "trust_language": False}
    later |= dict.fromkeys(("recipe", "weight", "min_line_documents"))
    if isinstance(source, RowSource | HubSource):
        later["licence_field"] = None
    source = source.model_copy(update=later)
    return IngestStage(source=source, part=part, files=files, piece=piece, ingest=config.corpus.ingest)


def adopt_stage(source: MegatronSource, part: int, files: list[str]) -> AdoptStage:
    """Return the section of the configuration that one job reads to adopt a pair of token files."""
    own = source.model_copy(update={"paths": ["<see files>"], "licence": "", "weight": None})
    return AdoptStage(source=own, part=part, files=files)


def _detector(language_id: LanguageIdConfig) -> DetectorStage:
    """Return the models of language identification with their digests.

    Raises:
        ConfigError: a model file is missing.
    """
    models = {"fallback_model": language_id.fallback_model, "fasttext_model": language_id.fasttext_model}
    digests = [digest_ends(SHIPPED_FALLBACK)] if language_id.fallback_model is None else []
    for key, path in models.items():
        if path is not None and not Path(path).is_file():
            raise ConfigError(
                f"no file {path!r}",
                where=f"corpus.language_id.{key}",
                expected="the path of an existing model of language identification",
            )
        digests += [digest_ends(Path(path))] if path is not None else []
    return DetectorStage(**models, digests=digests)


def _key_parameters(near: NearDedupConfig) -> NearDedupConfig:
    """Return the settings that the MinHash keys depend on.

    Settings that only determine how the keys are used are left out. A change of these settings therefore does not cause
    the corpus to be measured again.
    """
    return NearDedupConfig(**near.model_dump(exclude={"enabled", "verify", "min_jaccard"}))


def _mixture_stage(config: RunConfig) -> MixtureStage:
    """Return the section of the mixture.

    The section depends on the length of the training only if `max_epochs` caps the epochs. Without a cap, a longer
    training does not change the mixture or the tokenizer.
    """
    mixture, training = config.corpus.mixture, config.training
    budget = mixture.budget_bytes
    if budget is None and mixture.max_epochs is not None:
        samples = samples_to_read(training.batch, training.train_samples)
        budget = round(samples * config.model.sequence_length * BYTES_PER_TOKEN)
    return MixtureStage(
        mixture=mixture,
        source_weights={source.name: source.weight for source in config.sources if source.weight is not None},
        budget_bytes=budget,
    )


def without_estimate(training: TrainingConfig) -> TrainingConfig:
    """Return the training without the estimated number of samples if its length is stated in epochs.

    The estimate is for the plan only, so a better estimate must not run a stage again.
    """
    if training.train_epochs is None:
        return training
    return training.model_copy(update={"train_samples": UNKNOWN_SAMPLES})


def index_epochs(training: TrainingConfig) -> IndexEpochs | None:
    """Return the training's length in epochs, which the index converts to samples; None if `train_samples` states the
    length."""
    if training.train_epochs is None:
        return None
    return IndexEpochs(train_epochs=training.train_epochs, batch=training.batch)


def _tokenizer_report_stage(config: RunConfig) -> TokenizerReportStage:
    """Return the section of the tokenizer's report.

    Raises:
        ConfigError: the parallel text is missing.
    """
    parallel = config.tokenizer.report.parallel
    if parallel is not None and not Path(parallel).exists():
        expected = "the path of a folder with files <language>.txt, or of a JSON Lines file"
        raise ConfigError(f"no file or folder {parallel!r}", where="tokenizer.report.parallel", expected=expected)
    return TokenizerReportStage(report=config.tokenizer.report)


def stage_sections(config: RunConfig) -> dict[str, Section]:
    """Return every stage's section by the name of its file without `.json`.

    The sections of single parts come from `ingest_stage` and `adopt_stage`.
    """
    unspaced = sorted(code for code, profile in language_profiles().items() if profile.unspaced)
    licence_fields = {
        source.name: source.licence_field
        for source in config.text_sources
        if isinstance(source, RowSource | HubSource) and source.licence_field is not None
    }
    training = without_estimate(config.training)
    recipe_of = {source.name: source.recipe for source in config.text_sources if source.recipe}
    return {
        "lines": LinesStage(
            min_characters=config.corpus.lines.min_characters,
            partitions=config.corpus.lines.partitions,
            untouched=[CODE],
        ),
        "repeated_lines": RepeatedLinesStage(
            min_documents={
                source.name: source.min_line_documents or config.corpus.lines.min_documents
                for source in config.text_sources
            },
            partitions=config.corpus.lines.partitions,
            memory_bytes=config.corpus.dedup.memory_bytes,
        ),
        "measure": MeasureStage(
            detector=_detector(config.corpus.language_id),
            near=_key_parameters(config.corpus.dedup.near),
            seed=config.seed,
            unspaced=unspaced,
            words=resolved_words(config.corpus.measure),
            scripts={code: profile.scripts for code, profile in language_profiles().items() if profile.scripts},
            licence_fields=licence_fields,
        ),
        "judge": JudgeStage(
            thresholds=resolved_thresholds(config.corpus.judge),
            accept={code: profile.accept for code, profile in language_profiles().items()},
            trusted_sources=sorted(source.name for source in config.text_sources if source.trust_language),
            # The keys of the detector are excluded, because the section `measure` holds them.
            language_id=LanguageIdConfig(
                **config.corpus.language_id.model_dump(exclude=set(DetectorStage.model_fields))
            ),
            code_licences=config.corpus.code.licences,
            source_licences={
                source.name: source.licence
                for source in config.text_sources
                if config.corpus.code.licences and source.name not in licence_fields
            },
            recipes={name: resolved_thresholds(config.corpus.judge, name) for name in sorted(set(recipe_of.values()))},
            recipe_of=recipe_of,
        ),
        "dedup": DedupStage(
            dedup=config.corpus.dedup,
            unspaced=unspaced,
            priorities={source.name: source.priority for source in config.text_sources},
            seed=config.seed,
        ),
        "decontaminate": DecontaminateStage(
            **config.corpus.decontaminate.model_dump(exclude={"paths"}), unspaced=unspaced
        ),
        "clean": CleanStage(
            pii=config.corpus.pii,
            keep_removed_text=config.corpus.keep_removed_text,
            strips_lines=config.corpus.lines.enabled,
            decontaminates=bool(config.corpus.decontaminate.paths),
        ),
        "mixture": _mixture_stage(config),
        "count": CountStage(pre_tokenizer=config.tokenizer.pre_tokenizer, split_digits=config.tokenizer.split_digits),
        "tokenizer": TokenizerStage(tokenizer=config.tokenizer),
        "tokenizer_report": _tokenizer_report_stage(config),
        "index": IndexStage(
            sequence_length=config.model.sequence_length,
            train_samples=samples_to_read(training.batch, training.train_samples),
            epochs=index_epochs(training),
            validation_samples=training.validation.samples,
            validation_share=config.index.validation_share,
            seed=config.seed,
            blend=config.index.blend,
            order=config.index.order,
        ),
        "train": TrainStage(
            name=config.name,
            seed=config.seed,
            model=config.model,
            training=training,
            initial=initial_weights(config),
        ),
        "export": ExportStage(
            name=config.name,
            model_name=config.model_name,
            export=config.export,
            model=config.model,
            licences={source.name: source.licence for source in config.sources},
        ),
        "publish": PublishStage(name=config.name, model_name=config.model_name, publish=config.publish),
        # A section in a folder is not published with the logs. This one may name folders of the user's machine.
        "alerts/settings": AlertsStage(
            name=config.name, alerts=config.alerts, sync_minutes=config.publish.sync_minutes
        ),
    }
