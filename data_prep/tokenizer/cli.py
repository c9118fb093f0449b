"""Commands of `bloomery tokenizer`: count, train, import, report and check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bloomery.base.progress import say
from data_prep.tokenizer.report.cli import check, report

app = typer.Typer(
    no_args_is_help=True,
    help="Train a tokenizer on counts of pre-tokens, or import one. Then report on the tokenizer and check it.",
)

Parts = Annotated[
    Path, typer.Option(help="JSON file that lists the parts of a run's corpus (runs/<name>/config/parts.json).")
]


ResultOption = Annotated[
    Path | None,
    typer.Option(
        help="File that records the run's tokenizer (runs/<name>/results/tokenizer.json). Give it instead of --output. "
        "The previous tokenizer is replaced when the new tokenizer is complete."
    ),
]


@app.command()
def count(
    shards: Annotated[
        list[Path],
        typer.Argument(
            help="Parquet files with the texts to count: shards of a run, or other files with the columns "
            "`language` and `text`."
        ),
    ],
    output: Annotated[Path, typer.Option(help="Parquet file to write the table of counts to.")],
    config: Annotated[
        Path | None,
        typer.Option(
            help="Configuration of the counting (runs/<name>/config/count.json). Use it instead of --pre-tokenizer and "
            "--split-digits."
        ),
    ] = None,
    pre_tokenizer: Annotated[
        Literal["bloom", "modern"] | None,
        typer.Option(
            help="Preset of the pre-tokenizer, which splits text into pre-tokens before they are counted.",
            show_default="bloom",
        ),
    ] = None,
    split_digits: Annotated[
        bool, typer.Option("--split-digits", help="Make every digit a separate pre-token.")
    ] = False,
) -> None:
    """Count the pre-tokens of shards per language and sum the counts over all shards."""
    from bloomery.base.errors import ConfigError
    from bloomery.config.stages import CountStage, read_stage
    from data_prep.tokenizer.count_pre_tokens import count_shards, summary

    if config is None:
        stage = CountStage(pre_tokenizer=pre_tokenizer or "bloom", split_digits=split_digits)
    elif pre_tokenizer or split_digits:
        what = "--config already sets the values of --pre-tokenizer and --split-digits"
        raise ConfigError(what, where=str(config), expected="--config, or these two options without --config")
    else:
        stage = read_stage(config, CountStage)
    say(summary(count_shards(stage, shards, output), output))


@app.command()
def train(
    counts: Annotated[
        list[Path],
        typer.Option(
            help="Table of pre-token counts (from `bloomery tokenizer count`), or a folder of such tables. The option "
            "can be repeated."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write the tokenizer to: tokenizer.json, tokenizer_config.json, special_tokens_map.json and "
            "training.json."
        ),
    ] = None,
    result: ResultOption = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            min=260,
            max=2**24,
            help="Size of the vocabulary: number of entries, including special tokens, reserved tokens and the 256 "
            "bytes.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help='JSON file with the weight of each language: the mixture.json of a run, or {"en": 0.5, ...}. Without '
            "this option, the counts are not weighted."
        ),
    ] = None,
    reserved_tokens: Annotated[
        int | None,
        typer.Option(
            min=0, show_default="200", help="Number of reserved tokens, which are placeholders for later fine-tuning."
        ),
    ] = None,
    min_frequency: Annotated[
        int | None,
        typer.Option(
            min=1, show_default="2", help="Minimum count of a pair of adjacent tokens; rarer pairs are not merged."
        ),
    ] = None,
    max_token_bytes: Annotated[
        int | None, typer.Option(min=2, show_default="64", help="Maximum length of a token in bytes.")
    ] = None,
    pre_tokenizer: Annotated[
        Literal["bloom", "modern"] | None,
        typer.Option(
            show_default="as counted, else bloom",
            help="Preset of the pre-tokenizer. It must be the preset with which the pre-tokens were counted.",
        ),
    ] = None,
    split_digits: Annotated[
        bool | None,
        typer.Option(
            "--split-digits/--no-split-digits",
            show_default="as counted",
            help="Whether every digit is a separate pre-token. The counts must have been made with the same setting.",
        ),
    ] = None,
    max_pieces: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default="32000000",
            help="Maximum number of different pre-tokens to train on. If there are more, the most frequent ones are "
            "used.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Configuration of the tokenizer (runs/<name>/config/tokenizer.json). The other options override its "
            "values."
        ),
    ] = None,
    parts: Annotated[
        Path | None,
        typer.Option(
            help="JSON file that lists the parts of a run's corpus (runs/<name>/config/parts.json). Only the count "
            "tables of these parts are read."
        ),
    ] = None,
) -> None:
    """Train a byte-level BPE tokenizer on counts of pre-tokens. Use --weights to give each language a weight."""
    from bloomery.base.digest import digest_file
    from bloomery.base.errors import ConfigError
    from bloomery.config.load import validate
    from bloomery.config.stages import TokenizerStage, read_stage
    from bloomery.config.tokens import TokenizerTraining
    from bloomery.contracts import lineage
    from bloomery.contracts.result import written_to
    from bloomery.contracts.safe_path import read_part_names
    from data_prep.tokenizer.find_count_tables import find_tables
    from data_prep.tokenizer.train import summary, with_pre_tokenizer
    from data_prep.tokenizer.train import train as train_on

    if config is None and vocab_size is None:
        raise ConfigError(
            "the size of the vocabulary is missing",
            where="--vocab-size",
            expected="a number of entries, such as --vocab-size 250680, or --config FILE",
        )
    given = {
        "vocabulary_size": vocab_size,
        "reserved_tokens": reserved_tokens,
        "min_frequency": min_frequency,
        "max_token_bytes": max_token_bytes,
        "pre_tokenizer": pre_tokenizer,
        "split_digits": split_digits,
        "max_pieces": max_pieces,
    }
    known = {} if config is None else read_stage(config, TokenizerStage).tokenizer.model_dump()
    chosen = {key: value for key, value in given.items() if value is not None}
    example = "values that config/README.md allows for the keys of `tokenizer`"
    settings = validate(known | chosen, TokenizerTraining, where="the options and --config", example=example)
    names = None if parts is None else read_part_names(parts)
    tables = find_tables(counts, names)
    asked = config is not None or pre_tokenizer is not None or split_digits is not None
    settings = with_pre_tokenizer(settings, tables, asked=asked)
    with written_to(output, result) as new:
        facts = train_on(settings, tables, weights, new.folder)
        if result is not None and config is not None and names is not None and weights is not None:
            new.made_from = {
                lineage.TEXTS: lineage.counted_texts(counts[0], names),
                lineage.COUNTS: lineage.tables_of_counts(counts[0], names),
                lineage.MIXTURE: digest_file(weights),
                lineage.SECTION: lineage.section_digest(config),
            }
    say(summary(facts, new.shown))


@app.command("import")
def import_(
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write the tokenizer to: tokenizer.json, tokenizer_config.json, special_tokens_map.json and "
            "origin.json."
        ),
    ] = None,
    result: ResultOption = None,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Tokenizer to import: a folder, a tokenizer.json file, or a Hub repository (OWNER/NAME or "
            "OWNER/NAME@REVISION)."
        ),
    ] = None,
    end_of_document: Annotated[
        str | None,
        typer.Option(
            help="Token of the imported tokenizer that ends every document.", show_default="the tokenizer's eos_token"
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Configuration of the tokenizer (runs/<name>/config/tokenizer.json). It replaces NAME and "
            "--end-of-document."
        ),
    ] = None,
) -> None:
    """Import an existing tokenizer instead of training one, and warn if it does not preserve text."""
    from bloomery.base.errors import ConfigError
    from bloomery.config.stages import TokenizerStage, read_stage
    from bloomery.contracts import lineage
    from bloomery.contracts.result import written_to
    from data_prep.tokenizer.import_tokenizer import import_tokenizer

    most_entries = None
    if config is not None:
        stage = read_stage(config, TokenizerStage).tokenizer
        name, end_of_document, most_entries = stage.existing, stage.end_of_document, stage.vocabulary_size
    if name is None:
        raise ConfigError(
            "no tokenizer to import is given",
            where="bloomery tokenizer import",
            expected="the argument NAME, or --config FILE with a configuration that sets tokenizer.existing",
        )
    with written_to(output, result) as new:
        facts = import_tokenizer(name, new.folder, end_of_document=end_of_document, most_entries=most_entries)
        if config is not None:
            new.made_from = {lineage.SECTION: lineage.section_digest(config)}
        if facts["endpoint"] is None:
            new.made_from |= {f"{lineage.IMPORTED}{file}": digest for file, digest in facts["files"].items()}


app.command()(report)
app.command()(check)
