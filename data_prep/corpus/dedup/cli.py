"""The commands of `bloomery corpus dedup`. Each command is one job of the duplicate search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.progress import say
from bloomery.config.stages import DedupStage

app = typer.Typer(no_args_is_help=True, help="Find duplicates over all shards.")

Config = Annotated[Path, typer.Option("--config", help="JSON file with the settings of the dedup stage.")]
Corpus = Annotated[Path, typer.Option("--corpus", help="Corpus folder of the run, such as runs/sample/corpus.")]
Parts = Annotated[Path, typer.Option("--parts", help="JSON file that lists the parts of the corpus (`source/00000`).")]
Part = Annotated[str, typer.Option("--part", help="Name of a part, such as `source/00000`.")]
Partition = Annotated[int, typer.Option("--partition", min=0, help="Number of the partition.")]
Output = Annotated[Path, typer.Option("--output", help="File to write.")]


def _stage(config: Path, partition: int = 0) -> DedupStage:
    from bloomery.base.errors import InputError
    from bloomery.config.stages import read_stage

    stage = read_stage(config, DedupStage)
    if partition >= stage.dedup.partitions:
        raise InputError(
            f"there is no partition {partition}",
            where="--partition",
            expected=f"a number below {stage.dedup.partitions}",
        )
    return stage


@app.command("keys")
def keys_verb(config: Config, corpus: Corpus, part: Part, output: Output) -> None:
    """Distribute the keys of a shard's documents over the partitions."""
    from data_prep.corpus.dedup.scatter_keys import scatter_keys
    from data_prep.corpus.numbered_documents import CorpusTables

    stage = _stage(config)
    scatter_keys(stage, CorpusTables(corpus, stage.dedup.against), part, output)


@app.command("candidates")
def candidates_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    partition: Partition,
    output: Output,
    repeated: Annotated[Path, typer.Option("--repeated", help="Table of repeated ids to write.")],
) -> None:
    """Find pairs of documents that share a key of one partition, and repeated ids."""
    from data_prep.corpus.dedup.candidates import find_candidates
    from data_prep.corpus.numbered_documents import NumberedDocuments

    stage = _stage(config, partition)
    catalogue = NumberedDocuments(corpus, parts, stage.dedup.against)
    counts = find_candidates(stage, catalogue, partition, corpus / "keys", output, repeated)["counts"]
    say(f"{counts['exact']} exact and {counts['near']} near candidate pairs")


@app.command("connect")
def connect_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    output: Output,
    involved: Annotated[Path, typer.Option("--involved", help="Table to write: documents that are in a pair.")],
) -> None:
    """Join the pairs of all partitions into connected components."""
    from data_prep.corpus.dedup.connect import connect
    from data_prep.corpus.numbered_documents import NumberedDocuments

    stage = _stage(config)
    candidates = [corpus / "duplicates" / f"candidates-{number}.parquet" for number in range(stage.dedup.partitions)]
    counts = connect(stage, NumberedDocuments(corpus, parts, stage.dedup.against), candidates, output, involved)[
        "counts"
    ]
    say(f"{counts['components']} components")


@app.command("members")
def members_verb(config: Config, corpus: Corpus, part: Part, output: Output) -> None:
    """Collect the data that resolve needs about a shard's documents in a component."""
    from data_prep.corpus.dedup.members import gather_members
    from data_prep.corpus.numbered_documents import CorpusTables

    stage = _stage(config)
    involved = corpus / "duplicates" / "involved.parquet"
    gather_members(stage, CorpusTables(corpus, stage.dedup.against), part, involved, output)


@app.command("resolve")
def resolve_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    partition: Partition,
    output: Output,
    survivors: Annotated[
        Path,
        typer.Option("--survivors", help="Table to write: kept documents that are similar to other kept documents."),
    ],
) -> None:
    """Decide which documents of one partition's components are removed, and which document each is a duplicate of."""
    from data_prep.corpus.dedup.resolve import resolve
    from data_prep.corpus.numbered_documents import NumberedDocuments

    stage = _stage(config, partition)
    catalogue = NumberedDocuments(corpus, parts, stage.dedup.against)
    clusters = corpus / "duplicates" / "clusters.parquet"
    counts = resolve(stage, catalogue, partition, clusters, corpus / "members", output, survivors)["counts"]
    say(f"{counts['exact']} exact and {counts['near']} near duplicates removed")
