"""RunConfig: one YAML, one run."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bloomery.config.corpus import CorpusConfig
from bloomery.config.delivery import ExportConfig, PublishConfig
from bloomery.config.model import ModelConfig
from bloomery.config.planning import PlanConfig
from bloomery.config.section import Name, NotBool, Section
from bloomery.config.sources import AnySource, MegatronSource, Source
from bloomery.config.tokens import IndexConfig, TokenizerConfig
from bloomery.config.training import TrainingConfig


def _folder(root: str) -> str:
    # Snakemake reads braces and angle brackets in a path as its own names.
    if not root.strip() or any(character in "{}<>\n\0" for character in root):
        raise ValueError("a folder such as 'runs', without {}<> in its name")
    return root


def _some(sources: list[AnySource]) -> list[AnySource]:
    if not sources:
        raise ValueError("at least one source, here or in a catalogue")
    return sources


class RunConfig(Section):
    """Everything that a run is. Each stage sees only its own part (`bloomery.config.stages`)."""

    name: Name
    """Name of the run: its files lie under `<root>/<name>/`."""
    root: Annotated[str, AfterValidator(_folder)] = "runs"
    """Folder of all runs."""
    seed: Annotated[int, Field(ge=0, lt=2**63), NotBool] = 42
    """Seed of everything that is drawn."""
    sources: Annotated[list[AnySource], AfterValidator(_some)] = []
    """Where the text comes from; a `catalogue` may list them instead, or more of them."""
    catalogue: str | None = None
    """A table (`.csv`, `.tsv`) of further sources, one a row: its columns are keys of `sources[]`, `;` stands between
    several values of a cell, an empty cell is the default. Null again once its rows are among the sources."""
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
    plan: PlanConfig = PlanConfig()
    """What `bloomery plan` takes for granted."""

    @property
    def text_sources(self) -> list[Source]:
        """The sources whose text the corpus is made of."""
        return [source for source in self.sources if not isinstance(source, MegatronSource)]

    @property
    def adopted_sources(self) -> list[MegatronSource]:
        """The sources whose token files are adopted as they are."""
        return [source for source in self.sources if isinstance(source, MegatronSource)]

    @property
    def model_name(self) -> str:
        """Name of the exported model."""
        return self.export.model_name or self.name
