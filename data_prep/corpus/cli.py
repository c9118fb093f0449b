"""The commands of `bloomery corpus`. Each command parses its options and calls one function. Most are workflow jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from data_prep.corpus.dedup.cli import app as dedup

app = typer.Typer(no_args_is_help=True, help="Ingest, measure, judge, deduplicate, clean and mix text.")
app.add_typer(dedup, name="dedup")

Config = Annotated[
    Path,
    typer.Option(
        "--config",
        help="JSON file with the settings of this command. The workflow writes it to the folder config of the run.",
    ),
]
Output = Annotated[Path, typer.Option("--output", help="File to write: the result of this command.")]
Shard = Annotated[
    Path,
    typer.Option("--input", help="Shard of documents to read, such as runs/sample/corpus/raw/sample/00000.parquet."),
]
Corpus = Annotated[Path, typer.Option("--corpus", help="Corpus folder of the run, such as runs/sample/corpus.")]
Parts = Annotated[
    Path,
    typer.Option(
        "--parts",
        help="JSON file that lists the names of all shards of the run, such as runs/sample/config/parts.json.",
    ),
]


@app.command("ingest")
def ingest_verb(
    config: Config,
    output: Output,
    quarantine: Annotated[
        Path,
        typer.Option(
            "--quarantine", help="JSON Lines file to write: the rows that cannot become documents, with their reasons."
        ),
    ],
) -> None:
    """Read some files of a source, write their documents as a shard, and list the rows that cannot become documents."""
    import gc

    from bloomery.config.stages import IngestStage, read_stage
    from data_prep.corpus.ingest import ingest

    # Imported modules are never garbage. Without this call, the garbage collector would scan the modules again and
    # again.
    gc.freeze()
    counts = ingest(read_stage(config, IngestStage), output, quarantine)["counts"]
    say(f"{counts['documents']} documents with {format_bytes(counts['bytes'])} of text, {counts['bad_rows']} bad rows")


@app.command("train-langid")
def train_langid_verb(
    shards: Annotated[
        list[Path],
        typer.Argument(
            help="Shards to train on (runs/mine/corpus/raw/*/*.parquet). The language labels in them must be right."
        ),
    ],
    languages: Annotated[
        list[str],
        typer.Option("--language", help="Code of a language that the new model must detect, such as `ki`. Repeatable."),
    ],
    output: Output,
    base: Annotated[
        Path | None,
        typer.Option(
            "--base", help="N-gram model whose languages the new model also detects. Default: the shipped model."
        ),
    ] = None,
    min_bytes: Annotated[
        str,
        typer.Option(
            "--min-bytes",
            help="Least amount of training text per language. The command fails if a language given with --language has"
            " less; the text of another language with less is not used.",
        ),
    ] = "4KiB",
    max_bytes: Annotated[
        str,
        typer.Option(
            "--max-bytes", help="Greatest amount of training text per language. More text of a language is not read."
        ),
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
        f"the model detects {', '.join(model.languages)} and distinguishes them from"
        f" {len(model.classes) - len(model.languages)} other languages"
    )


@app.command("lines")
def lines_verb(config: Config, shard: Shard, output: Output) -> None:
    """Write hashes of the lines of a shard's documents, to find lines that many documents share."""
    from bloomery.config.stages import LinesStage, read_stage
    from data_prep.corpus.lines.count_lines import count_lines

    count_lines(read_stage(config, LinesStage), shard, output)


@app.command("repeated-lines")
def repeated_lines_verb(
    config: Config,
    corpus: Corpus,
    parts: Parts,
    partition: Annotated[
        int,
        typer.Option(
            "--partition",
            min=0,
            help="Number of the partition of the line hashes to process, from 0 to corpus.lines.partitions - 1.",
        ),
    ],
    output: Output,
) -> None:
    """Find the lines that many documents of a source share, in one partition of the line hashes."""
    from bloomery.base.errors import InputError
    from bloomery.config.stages import RepeatedLinesStage, read_stage
    from data_prep.corpus.lines.find_repeated_lines import find_repeated_lines

    stage = read_stage(config, RepeatedLinesStage)
    if partition >= stage.partitions:
        raise InputError(
            f"there is no partition {partition} of the line hashes",
            where="--partition",
            expected=f"a number from 0 to {stage.partitions - 1} (corpus.lines.partitions - 1)",
        )
    rows = find_repeated_lines(stage, corpus, parts, partition, output)["rows"]
    say(f"found {rows} lines that many documents of their source share")


@app.command("strip")
def strip_verb(
    config: Config,
    shard: Shard,
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
def measure_verb(config: Config, shard: Shard, output: Output) -> None:
    """Compute the statistics of every document of a shard, such as its length, its languages and its content hash."""
    from bloomery.config.stages import MeasureStage, read_stage
    from data_prep.corpus.measure import measure

    measure(read_stage(config, MeasureStage), shard, output)


@app.command("judge")
def judge_verb(
    config: Config,
    measures: Annotated[
        Path,
        typer.Option("--input", help="Statistics of a shard's documents, as `bloomery corpus measure` writes them."),
    ],
    output: Output,
) -> None:
    """Compare the statistics of each document with the limits of its language, and write which documents are kept."""
    from bloomery.config.stages import JudgeStage, read_stage
    from data_prep.corpus.judge import judge

    languages = judge(read_stage(config, JudgeStage), measures, output)["counts"]["languages"].values()
    removed = sum(sum(entry["removed"].values()) for entry in languages)
    say(f"{removed} of {sum(entry['documents'] for entry in languages)} documents removed")


@app.command("decontaminate")
def decontaminate_verb(
    config: Config,
    shard: Shard,
    evaluation: Annotated[
        list[Path],
        typer.Option("--evaluation", help="JSON Lines or Parquet file of texts for evaluations. Repeatable."),
    ],
    output: Output,
) -> None:
    """Find the documents of a shard that share n-grams with an evaluation text."""
    from bloomery.config.stages import DecontaminateStage, read_stage
    from data_prep.corpus.decontaminate import decontaminate

    counts = decontaminate(read_stage(config, DecontaminateStage), shard, evaluation, output)["counts"]
    say(f"{counts['documents']} documents share n-grams with at least one of the {counts['items']} evaluation texts")


@app.command("clean")
def clean_verb(
    config: Config,
    raw: Annotated[
        Path,
        typer.Option("--raw", help="Shard of documents to clean, such as runs/sample/corpus/raw/sample/00000.parquet."),
    ],
    verdicts: Annotated[
        Path, typer.Option("--verdicts", help="Verdicts on the documents of this shard, from `bloomery corpus judge`.")
    ],
    duplicates: Annotated[
        list[Path],
        typer.Option(
            "--duplicates", help="Table of removed duplicates, from `bloomery corpus dedup resolve`. Repeatable."
        ),
    ],
    repeated: Annotated[
        list[Path],
        typer.Option("--repeated", help="Table of repeated ids, from `bloomery corpus dedup candidates`. Repeatable."),
    ],
    output: Output,
    removed: Annotated[
        Path, typer.Option("--removed", help="Parquet file to write: the removed documents with their reasons.")
    ],
    contaminated: Annotated[
        Path | None,
        typer.Option(
            "--contaminated",
            help="Table of this shard's documents that share n-grams with evaluation texts, from"
            " `bloomery corpus decontaminate`.",
        ),
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
    index: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run's index. Its folder tokens/ contains the token files that --adopted lists."
        ),
    ] = None,
    adopted: Annotated[
        Path | None,
        typer.Option(
            help="JSON file that lists the adopted token files of the run, such as runs/sample/config/adopted.json."
        ),
    ] = None,
) -> None:
    """Compute the weight of each language in the clean corpus and the adopted token files."""
    from bloomery.config.stages import MixtureStage, read_stage
    from bloomery.contracts.safe_path import read_part_names
    from data_prep.corpus.weigh_mixture import lines, mixture

    pairs = [index / "tokens" / part for part in read_part_names(adopted)] if index and adopted else []
    found = mixture(read_stage(config, MixtureStage), corpus, parts, output, pairs)
    languages = found["languages"].values()
    say(f"{len(languages)} languages with {format_bytes(sum(entry['bytes'] for entry in languages))} of text")
    for line in lines(found):
        say(line)


@app.command("explain")
def explain_verb(
    run: Annotated[Path, typer.Argument(help="Folder of the run, such as runs/sample.")],
    document: Annotated[
        str,
        typer.Argument(help="Id of the document: 32 hexadecimal digits, as in the tables of the run's folder corpus/."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON on stdout.")] = False,
) -> None:
    """Report where a document comes from, which statistics it has, and why it was kept or removed."""
    from bloomery.base.atomic import dump_json
    from bloomery.contracts.paths import RunPaths
    from data_prep.corpus.explain import explain, lines

    found = explain(RunPaths(run), document)
    if as_json:
        print(dump_json(found), end="")
        return
    for each in found:
        print("\n".join(lines(each)))
