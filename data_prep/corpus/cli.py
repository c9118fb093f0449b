"""`bloomery corpus VERB`: each verb is one job of the workflow; parse, call, say one line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from data_prep.corpus.dedup.cli import app as dedup

app = typer.Typer(no_args_is_help=True, help="Ingest, measure, judge, deduplicate, clean, mix.")
app.add_typer(dedup, name="dedup")

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
    import gc

    from bloomery.config.stages import IngestStage, read_stage
    from data_prep.corpus.ingest import ingest

    # What is imported is never garbage; else it is gone through again and again while rows come and go.
    gc.freeze()
    counts = ingest(read_stage(config, IngestStage), output, quarantine)["counts"]
    say(f"{counts['documents']} documents, {format_bytes(counts['bytes'])}, {counts['bad_rows']} bad rows")


@app.command("train-langid")
def train_langid_verb(
    shards: Annotated[list[Path], typer.Argument(help="Shards (`runs/x/corpus/raw/**/*.parquet`) of trusted labels.")],
    languages: Annotated[list[str], typer.Option("--language", help="A language that the detector lacks; repeatable.")],
    output: Output,
    base: Annotated[
        Path | None, typer.Option("--base", help="The model that knows the other languages; else the shipped one.")
    ] = None,
    min_bytes: Annotated[
        str, typer.Option("--min-bytes", help="A language with less text keeps the label of its source.")
    ] = "4KiB",
    max_bytes: Annotated[str, typer.Option("--max-bytes", help="Text that is read of a language.")] = "4MiB",
) -> None:
    """Train the n-gram model of language identification (`corpus.language_id.fallback_model`) from labelled shards."""
    from bloomery.base.units import parse_bytes
    from bloomery.config.languages import SHIPPED_FALLBACK
    from data_prep.corpus.langid import ngrams
    from data_prep.corpus.langid.train_ngrams import labelled, train

    least, most = parse_bytes(min_bytes), parse_bytes(max_bytes)
    model = train(labelled(shards), languages, ngrams.load(base or SHIPPED_FALLBACK), least, most)
    ngrams.save(model, output)
    say(f"tells {', '.join(model.languages)} from {len(model.classes) - len(model.languages)} other languages")


@app.command("lines")
def lines_verb(
    config: Config, shard: Annotated[Path, typer.Option("--input", help="A raw shard.")], output: Output
) -> None:
    """Write the hashes of the lines of a shard's documents."""
    from bloomery.config.stages import LinesStage, read_stage
    from data_prep.corpus.lines.count_lines import count_lines

    count_lines(read_stage(config, LinesStage), shard, output)


@app.command("repeated-lines")
def repeated_lines_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    partition: Annotated[int, typer.Option("--partition", min=0, help="Number of the hash partition.")],
    output: Output,
) -> None:
    """Find the lines of one hash partition that many documents of a source share."""
    from bloomery.base.errors import InputError
    from bloomery.config.stages import RepeatedLinesStage, read_stage
    from data_prep.corpus.lines.find_repeated_lines import find_repeated_lines

    stage = read_stage(config, RepeatedLinesStage)
    if partition >= stage.partitions:
        raise InputError(f"partition {partition}", where="--partition", expected=f"below {stage.partitions}")
    say(f"{find_repeated_lines(stage, corpus, parts, partition, output)['rows']} repeated lines")


@app.command("strip")
def strip_verb(
    config: Config,
    shard: Annotated[Path, typer.Option("--input", help="A raw shard.")],
    corpus: Corpus,
    output: Output,
) -> None:
    """Write the documents of a shard without the lines that are repeated in their source."""
    from bloomery.config.stages import LinesStage, read_stage
    from data_prep.corpus.lines.strip_lines import strip_lines

    counts = strip_lines(read_stage(config, LinesStage), shard, corpus, output)["counts"]
    say(
        f"{counts['lines_removed']} lines ({format_bytes(counts['line_bytes_removed'])}) removed from"
        f" {counts['documents_changed']} of {counts['documents']} documents"
    )


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
    duplicates: Annotated[list[Path], typer.Option("--duplicates", help="Duplicates of one partition; repeatable.")],
    repeated: Annotated[list[Path], typer.Option("--repeated", help="Repeated ids of one partition; repeatable.")],
    output: Output,
    removed: Annotated[Path, typer.Option("--removed", help="The table of removed documents to write.")],
    contaminated: Annotated[
        Path | None, typer.Option("--contaminated", help="The shard's hits among evaluation texts.")
    ] = None,
) -> None:
    """Write the documents that stay, personal data replaced, and those that do not, each with its reasons."""
    from bloomery.config.stages import CleanStage, read_stage
    from data_prep.corpus.clean import Duplicates, clean

    found = Duplicates(duplicates, repeated)
    counts = clean(read_stage(config, CleanStage), raw, verdicts, found, output, removed, contaminated)["counts"]
    say(f"{counts['out']['documents']} of {counts['in']['documents']} documents stay")


@app.command("mixture")
def mixture_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    output: Output,
    index: Annotated[Path | None, typer.Option(help="Folder of the index, for --adopted.")] = None,
    adopted: Annotated[Path | None, typer.Option(help="adopted.json: the run's adopted token files.")] = None,
) -> None:
    """Weigh the languages of the clean corpus, and of adopted token files."""
    from bloomery.base.atomic import read_json
    from bloomery.config.stages import MixtureStage, read_stage
    from data_prep.corpus.weigh_mixture import lines, mixture

    pairs = [index / "tokens" / part for part in read_json(adopted)] if index and adopted else []
    found = mixture(read_stage(config, MixtureStage), corpus, parts, output, pairs)
    languages = found["languages"].values()
    say(f"{len(languages)} languages, {format_bytes(sum(entry['bytes'] for entry in languages))}")
    for line in lines(found):
        say(line)


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
