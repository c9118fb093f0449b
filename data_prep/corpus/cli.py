"""The commands of `bloomery corpus`. Each parses its options and calls one function. Most of them are workflow jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from data_prep.corpus.dedup.cli import app as dedup

app = typer.Typer(no_args_is_help=True, help="Ingest, measure, judge, deduplicate, clean, mix.")
app.add_typer(dedup, name="dedup")

Config = Annotated[Path, typer.Option("--config", help="JSON file with the settings of this stage.")]
Output = Annotated[Path, typer.Option("--output", help="File to write.")]
Corpus = Annotated[Path, typer.Option("--corpus", help="Corpus folder of the run, such as runs/sample/corpus.")]
Parts = Annotated[Path, typer.Option("--parts", help="JSON file that lists the parts of the corpus (`source/00000`).")]


@app.command("ingest")
def ingest_verb(
    config: Config,
    output: Output,
    quarantine: Annotated[Path, typer.Option("--quarantine", help="JSON Lines file for the bad rows.")],
) -> None:
    """Read one part of a source, write it as a shard, and quarantine its bad rows."""
    import gc

    from bloomery.config.stages import IngestStage, read_stage
    from data_prep.corpus.ingest import ingest

    # Imported modules are never garbage. Without this call, the garbage collector would scan them again and again.
    gc.freeze()
    counts = ingest(read_stage(config, IngestStage), output, quarantine)["counts"]
    say(f"{counts['documents']} documents, {format_bytes(counts['bytes'])}, {counts['bad_rows']} bad rows")


@app.command("train-langid")
def train_langid_verb(
    shards: Annotated[
        list[Path], typer.Argument(help="Shards with trusted language labels (`runs/x/corpus/raw/**/*.parquet`).")
    ],
    languages: Annotated[
        list[str], typer.Option("--language", help="Code of a language that the detector lacks. Repeatable.")
    ],
    output: Output,
    base: Annotated[
        Path | None, typer.Option("--base", help="Model whose languages are included. Default: the shipped model.")
    ] = None,
    min_bytes: Annotated[
        str, typer.Option("--min-bytes", help="Least text per language. A --language with less text is an error.")
    ] = "4KiB",
    max_bytes: Annotated[
        str, typer.Option("--max-bytes", help="Text after which a language is read no further.")
    ] = "4MiB",
) -> None:
    """Train the n-gram model of language identification (`corpus.language_id.fallback_model`) from labelled shards."""
    from bloomery.base.units import parse_bytes
    from bloomery.config.languages import SHIPPED_FALLBACK
    from data_prep.corpus.langid import ngrams
    from data_prep.corpus.langid.train_ngrams import labelled, train

    least, most = parse_bytes(min_bytes), parse_bytes(max_bytes)
    model = train(labelled(shards), languages, ngrams.load(base or SHIPPED_FALLBACK), least, most)
    ngrams.save(model, output)
    say(
        f"the model distinguishes {', '.join(model.languages)} from"
        f" {len(model.classes) - len(model.languages)} other languages"
    )


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
    """Find lines of one hash partition that occur in many documents of a source."""
    from bloomery.base.errors import InputError
    from bloomery.config.stages import RepeatedLinesStage, read_stage
    from data_prep.corpus.lines.find_repeated_lines import find_repeated_lines

    stage = read_stage(config, RepeatedLinesStage)
    if partition >= stage.partitions:
        raise InputError(
            f"there is no partition {partition}", where="--partition", expected=f"a number below {stage.partitions}"
        )
    say(f"{find_repeated_lines(stage, corpus, parts, partition, output)['rows']} repeated lines")


@app.command("strip")
def strip_verb(
    config: Config,
    shard: Annotated[Path, typer.Option("--input", help="A raw shard.")],
    corpus: Corpus,
    output: Output,
) -> None:
    """Write the documents of a shard without the lines that many documents of their source share."""
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
    """Measure every document of a shard."""
    from bloomery.config.stages import MeasureStage, read_stage
    from data_prep.corpus.measure import measure

    measure(read_stage(config, MeasureStage), shard, output)


@app.command("judge")
def judge_verb(
    config: Config, measures: Annotated[Path, typer.Option("--input", help="Measures of a shard.")], output: Output
) -> None:
    """Apply the limits of each language to the measures and write verdicts."""
    from bloomery.config.stages import JudgeStage, read_stage
    from data_prep.corpus.judge import judge

    languages = judge(read_stage(config, JudgeStage), measures, output)["counts"]["languages"].values()
    removed = sum(sum(entry["removed"].values()) for entry in languages)
    say(f"{removed} of {sum(entry['documents'] for entry in languages)} documents removed")


@app.command("decontaminate")
def decontaminate_verb(
    config: Config,
    shard: Annotated[Path, typer.Option("--input", help="A raw shard.")],
    evaluation: Annotated[list[Path], typer.Option("--evaluation", help="File of evaluation texts. Repeatable.")],
    output: Output,
) -> None:
    """Find the documents of a shard that share n-grams with an evaluation text."""
    from bloomery.config.stages import DecontaminateStage, read_stage
    from data_prep.corpus.decontaminate import decontaminate

    counts = decontaminate(read_stage(config, DecontaminateStage), shard, evaluation, output)["counts"]
    say(f"{counts['documents']} documents share n-grams with the {counts['items']} evaluation texts")


@app.command("clean")
def clean_verb(
    config: Config,
    raw: Annotated[Path, typer.Option("--raw", help="A raw shard.")],
    verdicts: Annotated[Path, typer.Option("--verdicts", help="Verdicts of the shard.")],
    duplicates: Annotated[list[Path], typer.Option("--duplicates", help="Duplicates of one partition. Repeatable.")],
    repeated: Annotated[list[Path], typer.Option("--repeated", help="Repeated ids of one partition. Repeatable.")],
    output: Output,
    removed: Annotated[Path, typer.Option("--removed", help="Table of removed documents to write.")],
    contaminated: Annotated[
        Path | None, typer.Option("--contaminated", help="Table of the shard's matches with evaluation texts.")
    ] = None,
) -> None:
    """Write the kept documents with personal data replaced, and the removed documents with their reasons."""
    from bloomery.config.stages import CleanStage, read_stage
    from data_prep.corpus.clean import clean
    from data_prep.corpus.removal_reason import Duplicates

    found = Duplicates(duplicates, repeated)
    counts = clean(read_stage(config, CleanStage), raw, verdicts, found, output, removed, contaminated)["counts"]
    say(f"{counts['out']['documents']} of {counts['in']['documents']} documents kept")


@app.command("mixture")
def mixture_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    output: Output,
    index: Annotated[Path | None, typer.Option(help="Index folder with the token files of --adopted.")] = None,
    adopted: Annotated[Path | None, typer.Option(help="JSON list of the run's adopted token files.")] = None,
) -> None:
    """Compute the weight of each language in the clean corpus and the adopted token files."""
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")] = False,
) -> None:
    """Report where a document comes from, what was measured, and why it was kept or removed."""
    from bloomery.base.atomic import dump_json
    from bloomery.contracts.paths import RunPaths
    from data_prep.corpus.explain import explain, lines

    found = explain(RunPaths(run), document)
    if as_json:
        print(dump_json(found), end="")
        return
    for each in found:
        print("\n".join(lines(each)))
