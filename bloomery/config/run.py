"""RunConfig: one YAML, one run."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from bloomery.config.corpus import CorpusConfig
from bloomery.config.delivery import ExportConfig, PublishConfig
from bloomery.config.model import ModelConfig
from bloomery.config.section import Name, Section
from bloomery.config.sources import Source
from bloomery.config.tokens import IndexConfig, TokenizerConfig
from bloomery.config.training import TrainingConfig


class RunConfig(Section):
    """Everything that a run is. Each stage sees only its own part (`bloomery.config.stages`)."""

    name: Name
    """Name of the run: its files lie under `<root>/<name>/`."""
    root: str = "runs"
    """Folder of all runs."""
    seed: Annotated[int, Field(ge=0)] = 42
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
    def _consistent(self) -> Self:
        problems = []
        names = [source.name for source in self.sources]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            problems.append(f"sources: the name {twice[0]!r} is used twice; each source needs its own")
        parallel = self.training.parallel
        if self.model.heads % parallel.tensor:
            problems.append(
                f"model.heads {self.model.heads} must be divisible by training.parallel.tensor {parallel.tensor}"
            )
        if self.model.layers < parallel.pipeline:
            problems.append(
                f"model.layers {self.model.layers} cannot fill training.parallel.pipeline {parallel.pipeline} stages; "
                f"at most {self.model.layers} stages"
            )
        if self.tokenizer.vocabulary_size < 4 + self.tokenizer.reserved_tokens + 256:
            problems.append(
                f"tokenizer.vocabulary_size {self.tokenizer.vocabulary_size} is less than 4 special + "
                f"{self.tokenizer.reserved_tokens} reserved + 256 byte tokens"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def model_name(self) -> str:
        """Name of the exported model."""
        return self.export.model_name or self.name
