"""RunConfig: the configuration of one run, read from one YAML file."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bloomery.config.alerts import AlertsConfig
from bloomery.config.corpus import CorpusConfig
from bloomery.config.delivery import ExportConfig, PublishConfig
from bloomery.config.model import ModelConfig
from bloomery.config.planning import PlanConfig
from bloomery.config.section import Name, NotBool, Section
from bloomery.config.sources import AnySource, MegatronSource, Source
from bloomery.config.tokens import IndexConfig, TokenizerConfig
from bloomery.config.training import TrainingConfig


def _folder(root: str) -> str:
    # Snakemake interprets braces and angle brackets in a path as wildcards or placeholders.
    if not root.strip() or any(character in "{}<>\n\0" for character in root):
        raise ValueError("a folder such as 'runs', without the characters { } < > in its path")
    return root


def _some(sources: list[AnySource]) -> list[AnySource]:
    if not sources:
        raise ValueError("at least one source, in `sources` or in the table that `catalogue` names")
    return sources


class RunConfig(Section):
    """The whole configuration of a run. Each stage sees only its own part (`bloomery.config.stages`)."""

    name: Annotated[Name, Field(examples=["my-run"])]
    """Name of the run. Its files are written to `<root>/<name>/`."""
    root: Annotated[str, AfterValidator(_folder)] = "runs"
    """Folder that contains all runs."""
    seed: Annotated[int, Field(ge=0, lt=2**63), NotBool] = 42
    """Seed of all random numbers: MinHash permutations, the order of the samples, initial weights."""
    sources: Annotated[
        list[AnySource],
        AfterValidator(_some),
        Field(examples=[[{"name": "web", "kind": "jsonl", "paths": ["data/*.jsonl.zst"]}]]),
    ] = []
    """Inputs of the run: sources of text, or of token files. The table that `catalogue` names can add more sources. At
    least one source is needed."""
    catalogue: Annotated[str | None, Field(examples=["sources.csv"])] = None
    """Path of a table (`.csv`, `.tsv`) with further sources, one per row. Its columns are keys of `sources[]`. `;`
    separates several values in a cell, and an empty cell takes the default. After loading, the rows are part of
    `sources` and this key is null. Default (null): no table."""
    corpus: CorpusConfig = CorpusConfig()
    """Settings of the cleaning and deduplication of the corpus."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """Settings of the tokenizer and of its report."""
    index: IndexConfig = IndexConfig()
    """Settings of the token index."""
    model: ModelConfig
    """Architecture and size of the network."""
    training: TrainingConfig
    """Settings of the training."""
    export: ExportConfig = ExportConfig()
    """Settings of the export of the trained model."""
    publish: PublishConfig = PublishConfig()
    """Settings of the publication of the model and the logs."""
    alerts: AlertsConfig = AlertsConfig()
    """Alerts about a run that needs a person, and where they are sent."""
    plan: PlanConfig = PlanConfig()
    """Assumptions of `bloomery plan`."""

    @property
    def text_sources(self) -> list[Source]:
        """Sources of text, from which the corpus is made."""
        return [source for source in self.sources if not isinstance(source, MegatronSource)]

    @property
    def adopted_sources(self) -> list[MegatronSource]:
        """Sources whose token files are used for training without changes."""
        return [source for source in self.sources if isinstance(source, MegatronSource)]

    @property
    def model_name(self) -> str:
        """Name of the exported model."""
        return self.export.model_name or self.name
