"""The commands of `bloomery corpus dedup`. Each command is one job of the duplicate search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.progress import say
from bloomery.config.stages import DedupStage

app = typer.Typer(no_args_is_help=True, help="Find duplicate documents over all shards of a corpus.")

Config = Annotated[
    Path,
    typer.Option(
        "--config", help="JSON file with the settings of the duplicate search, such as runs/sample/config/dedup.json."
    ),
]
Corpus = Annotated[Path, typer.Option("--corpus", help="Corpus folder of the run, such as runs/sample/corpus.")]
Parts = Annotated[
    Path,
    typer.Option(
        "--parts",
        help="JSON file that lists the names of all shards of the run, such as runs/sample/config/parts.json.",
    ),
]
Part = Annotated[
    str,
    typer.Option(
        "--part", help="Name of the shard to process: its source and its number in the source, such as `sample/00000`."
    ),
]
Partition = Annotated[
    int,
    typer.Option(
        "--partition",
        min=0,
        help="Number of the partition of the duplicate search to process, from 0 to corpus.dedup.partitions - 1.",
    ),
]
Output = Annotated[Path, typer.Option("--output", help="Parquet file to write: the result of this command.")]


def _stage(config: Path, partition: int = 0) -> DedupStage:
    from bloomery.base.errors import InputError
    from bloomery.config.stages import read_stage

    stage = read_stage(config, DedupStage)
    if partition >= stage.dedup.partitions:
        raise InputError(
            f"the duplicate search has no partition {partition}",
            where="--partition",
            expected=f"a number from 0 to {stage.dedup.partitions - 1} (corpus.dedup.partitions - 1)",
        )
    return stage


@app.command("keys")
def keys_verb(config: Config, corpus: Corpus, part: Part, output: Output) -> None:
    """Write the keys of a shard's documents (ids, content hashes, MinHash bands), sorted by partition.

    Documents with an equal key are compared later.
    """
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
    repeated: Annotated[
        Path,
        typer.Option(
            "--repeated", help="Parquet file to write: documents with the id of an earlier document, and their new ids."
        ),
    ],
) -> None:
    """Find pairs of documents that may be duplicates, and ids that repeat, among the keys of one partition."""
    from data_prep.corpus.dedup.candidates import find_candidates
    from data_prep.corpus.numbered_documents import NumberedDocuments

    stage = _stage(config, partition)
    catalogue = NumberedDocuments(corpus, parts, stage.dedup.against)
    counts = find_candidates(stage, catalogue, partition, corpus / "keys", output, repeated)["counts"]
    say(f"found {counts['exact']} pairs of equal documents and {counts['near']} pairs that may be near duplicates")


@app.command("connect")
def connect_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    output: Output,
    involved: Annotated[
        Path,
        typer.Option(
            "--involved", help="Parquet file to write: the documents that are in a pair of possible duplicates."
        ),
    ],
) -> None:
    """Join the pairs of possible duplicates of all partitions into connected groups."""
    from data_prep.corpus.dedup.connect import connect
    from data_prep.corpus.numbered_documents import NumberedDocuments

    stage = _stage(config)
    candidates = [corpus / "duplicates" / f"candidates-{number}.parquet" for number in range(stage.dedup.partitions)]
    counts = connect(stage, NumberedDocuments(corpus, parts, stage.dedup.against), candidates, output, involved)[
        "counts"
    ]
    say(f"found {counts['components']} connected groups of possible duplicates")


@app.command("members")
def members_verb(config: Config, corpus: Corpus, part: Part, output: Output) -> None:
    """Collect ids and n-gram hashes of the possible duplicates in a shard, for `bloomery corpus dedup resolve`."""
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
        typer.Option(
            "--survivors",
            help="Parquet file to write: kept documents that are similar to another kept document. Such documents are"
            " not split between training and validation.",
        ),
    ],
) -> None:
    """Decide which possible duplicates of one partition are removed, and which kept document each one duplicates."""
    from data_prep.corpus.dedup.resolve import resolve
    from data_prep.corpus.numbered_documents import NumberedDocuments

    stage = _stage(config, partition)
    catalogue = NumberedDocuments(corpus, parts, stage.dedup.against)
    clusters = corpus / "duplicates" / "clusters.parquet"
    counts = resolve(stage, catalogue, partition, clusters, corpus / "members", output, survivors)["counts"]
    say(f"{counts['exact']} exact and {counts['near']} near duplicates removed")
