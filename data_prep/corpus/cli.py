"""`bloomery corpus VERB`: each verb is one job of the workflow; parse, call, say one line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.progress import say
from bloomery.base.units import format_bytes

app = typer.Typer(no_args_is_help=True, help="Ingest, measure, judge, deduplicate, clean, mix.")

Config = Annotated[Path, typer.Option("--config", help="The stage's part of the configuration (JSON).")]
Output = Annotated[Path, typer.Option("--output", help="The file to write.")]
Corpus = Annotated[Path, typer.Option("--corpus", help="Folder of the run's corpus.")]
Parts = Annotated[Path, typer.Option("--parts", help="JSON list of the corpus' parts (`source/00000`).")]


@app.command("ingest")
def ingest_verb(
    config: Config,
    output: Output,
    quarantine: Annotated[Path, typer.Option("--quarantine", help="JSON Lines of the bad rows.")],
) -> None:
    """Read one part of a source into a shard; quarantine its bad rows."""
    from bloomery.config.stages import IngestStage, read_stage
    from data_prep.corpus.ingest import ingest

    counts = ingest(read_stage(config, IngestStage), output, quarantine)["counts"]
    say(f"{counts['documents']} documents, {format_bytes(counts['bytes'])}, {counts['bad_rows']} bad rows")


@app.command("measure")
def measure_verb(
    config: Config, shard: Annotated[Path, typer.Option("--input", help="A raw shard.")], output: Output
) -> None:
    """Measure every document of a shard once."""
    from bloomery.config.stages import MeasureStage, read_stage
    from data_prep.corpus.measure import measure

    measure(read_stage(config, MeasureStage), shard, output)


@app.command("judge")
def judge_verb(
    config: Config, measures: Annotated[Path, typer.Option("--input", help="A shard's measures.")], output: Output
) -> None:
    """Apply the limits of each language to the measures."""
    from bloomery.config.stages import JudgeStage, read_stage
    from data_prep.corpus.judge import judge

    languages = judge(read_stage(config, JudgeStage), measures, output)["counts"]["languages"].values()
    removed = sum(sum(entry["removed"].values()) for entry in languages)
    say(f"{removed} of {sum(entry['documents'] for entry in languages)} documents removed")


@app.command("candidates")
def candidates_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    partition: Annotated[int, typer.Option("--partition", min=0, help="Number of the hash partition.")],
    output: Output,
) -> None:
    """Find pairs of documents that share a key of one hash partition."""
    from bloomery.base.errors import InputError
    from bloomery.config.stages import DedupStage, read_stage
    from data_prep.corpus.catalogue import Catalogue
    from data_prep.corpus.dedup.candidates import find_candidates

    stage = read_stage(config, DedupStage)
    if partition >= stage.dedup.partitions:
        raise InputError(f"partition {partition}", where="--partition", expected=f"below {stage.dedup.partitions}")
    find_candidates(stage, Catalogue(corpus, parts), partition, output)


@app.command("cluster")
def cluster_verb(config: Config, corpus: Corpus, parts: Parts, output: Output) -> None:
    """Decide which duplicates go, and for which twin."""
    from bloomery.config.stages import DedupStage, read_stage
    from data_prep.corpus.catalogue import Catalogue
    from data_prep.corpus.dedup.cluster import cluster

    stage = read_stage(config, DedupStage)
    candidates = [corpus / "duplicates" / f"candidates-{number}.parquet" for number in range(stage.dedup.partitions)]
    counts = cluster(stage, Catalogue(corpus, parts), candidates, output)["counts"]
    say(f"{counts['exact']} exact and {counts['near']} near duplicates removed")


@app.command("decontaminate")
def decontaminate_verb(
    config: Config,
    shard: Annotated[Path, typer.Option("--input", help="A raw shard.")],
    evaluation: Annotated[list[Path], typer.Option("--evaluation", help="A file of evaluation texts; repeatable.")],
    output: Output,
) -> None:
    """Find the documents that share an n-gram with an evaluation text."""
    from bloomery.config.stages import DecontaminateStage, read_stage
    from data_prep.corpus.decontaminate import decontaminate

    counts = decontaminate(read_stage(config, DecontaminateStage), shard, evaluation, output)["counts"]
    say(f"{counts['documents']} documents share an n-gram with {counts['items']} evaluation texts")


@app.command("clean")
def clean_verb(
    config: Config,
    raw: Annotated[Path, typer.Option("--raw", help="A raw shard.")],
    verdicts: Annotated[Path, typer.Option("--verdicts", help="Its verdicts.")],
    duplicates: Annotated[Path, typer.Option("--duplicates", help="Duplicates of the corpus.")],
    output: Output,
    removed: Annotated[Path, typer.Option("--removed", help="The table of removed documents to write.")],
    contaminated: Annotated[
        Path | None, typer.Option("--contaminated", help="The shard's hits among evaluation texts.")
    ] = None,
) -> None:
    """Write the documents that stay, personal data replaced, and those that do not, each with its reasons."""
    from bloomery.config.stages import CleanStage, read_stage
    from data_prep.corpus.clean import clean

    counts = clean(read_stage(config, CleanStage), raw, verdicts, duplicates, output, removed, contaminated)["counts"]
    say(f"{counts['out']['documents']} of {counts['in']['documents']} documents stay")


@app.command("mixture")
def mixture_verb(config: Config, corpus: Corpus, parts: Parts, output: Output) -> None:
    """Weigh the languages of the clean corpus."""
    from bloomery.config.stages import MixtureStage, read_stage
    from data_prep.corpus.mixture import mixture

    languages = mixture(read_stage(config, MixtureStage), corpus, parts, output)["languages"]
    say(f"{len(languages)} languages, {format_bytes(sum(entry['bytes'] for entry in languages.values()))}")


@app.command("explain")
def explain_verb(
    run: Annotated[Path, typer.Argument(help="Folder of the run, such as runs/sample.")],
    document: Annotated[str, typer.Argument(help="Id of a document.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Say where a document comes from, what was measured, and why it stayed or went."""
    from bloomery.base.atomic import dump_json
    from bloomery.contracts.paths import RunPaths
    from data_prep.corpus.explain import explain, lines

    found = explain(RunPaths(run), document)
    if as_json:
        print(dump_json(found), end="")
        return
    for each in found:
        print("\n".join(lines(each)))
