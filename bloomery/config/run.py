"""RunConfig: one YAML, one run."""

from __future__ import annotations

import difflib
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from bloomery.config.corpus import CorpusConfig, Thresholds
from bloomery.config.delivery import ExportConfig, PublishConfig
from bloomery.config.languages import language_profiles, resolved_thresholds
from bloomery.config.model import ModelConfig
from bloomery.config.section import Contradiction, Name, NotTruth, Section, report
from bloomery.config.sources import Source
from bloomery.config.tokens import IndexConfig, TokenizerConfig, smallest_vocabulary
from bloomery.config.training import TrainingConfig


def _folder(root: str) -> str:
    # Snakemake reads braces and angle brackets in a path as its own names.
    if not root.strip() or any(character in "{}<>\n\0" for character in root):
        raise ValueError("a folder such as 'runs', without {}<> in its name")
    return root


class RunConfig(Section):
    """Everything that a run is. Each stage sees only its own part (`bloomery.config.stages`)."""

    name: Name
    """Name of the run: its files lie under `<root>/<name>/`."""
    root: Annotated[str, AfterValidator(_folder)] = "runs"
    """Folder of all runs."""
    seed: Annotated[int, Field(ge=0, lt=2**63), NotTruth] = 42
    """Seed of everything that is drawn."""
    sources: Annotated[list[Source], Field(min_length=1)]
    """Where the text comes from."""
    corpus: CorpusConfig = CorpusConfig()
    """Cleaning and deduplication."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """Tokenizer."""
    index: IndexConfig = IndexConfig()
    """Token index."""
    model: ModelConfig
    """Shape of the network."""
    training: TrainingConfig
    """Training."""
    export: ExportConfig = ExportConfig()
    """Export."""
    publish: PublishConfig = PublishConfig()
    """Publishing."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        report([*_of_sources(self), *_of_layout(self), *_of_thresholds(self)], info)
        return self

    @property
    def model_name(self) -> str:
        """Name of the exported model."""
        return self.export.model_name or self.name


def _of_sources(config: RunConfig) -> list[Contradiction]:
    places: dict[str, list[int]] = {}
    for number, source in enumerate(config.sources):
        places.setdefault(source.name, []).append(number)
    return [
        Contradiction(
            f"sources: the name {name!r} is used twice; each source needs its own",
            tuple(f"sources[{number}].name" for number in numbers),
        )
        for name, numbers in places.items()
        if len(numbers) > 1
    ]


def _of_layout(config: RunConfig) -> list[Contradiction]:
    model, parallel, tokenizer = config.model, config.training.parallel, config.tokenizer
    problems = []
    if model.heads % parallel.tensor:
        message = f"model.heads {model.heads} must be divisible by training.parallel.tensor {parallel.tensor}"
        problems.append(Contradiction(message, ("model.heads", "training.parallel.tensor")))
    if model.layers < parallel.pipeline:
        message = (
            f"model.layers {model.layers} cannot fill training.parallel.pipeline {parallel.pipeline} stages; "
            f"at most {model.layers} stages"
        )
        problems.append(Contradiction(message, ("model.layers", "training.parallel.pipeline")))
    if tokenizer.vocabulary_size < smallest_vocabulary(tokenizer.reserved_tokens):
        message = (
            f"tokenizer.vocabulary_size {tokenizer.vocabulary_size} is less than 4 special + "
            f"{tokenizer.reserved_tokens} reserved + 256 byte tokens"
        )
        problems.append(Contradiction(message, ("tokenizer.vocabulary_size", "tokenizer.reserved_tokens")))
    return problems


def _of_thresholds(config: RunConfig) -> list[Contradiction]:
    judge, section = config.corpus.judge, "corpus.judge.thresholds"
    known = {"default", *language_profiles()}
    declared = [f"sources[{number}]" for number in range(len(config.sources))]
    for source in config.sources:
        known |= {source.language or "default"} | set((source.languages or []) if source.kind == "udhr" else [])
    problems = []
    for language in judge.thresholds:
        if language not in known:
            near = difflib.get_close_matches(language, known, n=1, cutoff=0.4)
            message = (
                f"{section}.{language}: unknown language{f' (did you mean {near[0]!r}?)' if near else ''}; expected: "
                "default, one of config/languages, or the `language` of a source"
            )
            problems.append(Contradiction(message, (f"{section}.{language}", *declared)))
    for language, limits in resolved_thresholds(judge).items():
        for least in [name for name in Thresholds.model_fields if name.startswith("min_")]:
            greatest = least.replace("min_", "max_")
            low, high = getattr(limits, least), getattr(limits, greatest, None)
            if low is not None and high is not None and low > high:
                # One number may come from the preset or from `default`: all three places are named.
                own = [f"{section}.{where}.{key}" for where in (language, "default") for key in (least, greatest)]
                message = f"{section}.{language}: {least} {low:g} exceeds {greatest} {high:g}: nothing would be kept"
                problems.append(Contradiction(message, ("corpus.judge.preset", *own)))
    return problems
