"""`bloomery tokenizer`: count, train, report, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bloomery.base.progress import say
from data_prep.tokenizer.report.cli import check, report

app = typer.Typer(no_args_is_help=True, help="Count pre-tokens, train the tokenizer, report on it, check it.")

Parts = Annotated[Path, typer.Option(help="parts.json: the run's parts in order.")]


@app.command()
def count(
    shards: Annotated[list[Path], typer.Argument(help="Shards, or other Parquet files with language and text.")],
    output: Annotated[Path, typer.Option(help="The count table to write (.parquet).")],
    config: Annotated[
        Path | None, typer.Option(help="count.json: this stage's part of a run's configuration, instead of options.")
    ] = None,
    pre_tokenizer: Annotated[
        Literal["bloom", "modern"] | None, typer.Option(help="How text is cut into pieces.", show_default="bloom")
    ] = None,
    split_digits: Annotated[bool, typer.Option("--split-digits", help="Every digit is a piece of its own.")] = False,
) -> None:
    """Count the pre-tokens of shards per language; several are summed."""
    from bloomery.base.errors import ConfigError
    from bloomery.config.stages import CountStage, read_stage
    from data_prep.tokenizer.count import count_shards, summary

    if config is None:
        stage = CountStage(pre_tokenizer=pre_tokenizer or "bloom", split_digits=split_digits)
    elif pre_tokenizer or split_digits:
        what = "--pre-tokenizer and --split-digits are in the configuration"
        raise ConfigError(what, where=str(config), expected="either --config or these options")
    else:
        stage = read_stage(config, CountStage)
    say(summary(count_shards(stage, shards, output), output))


@app.command()
def train(
    counts: Annotated[list[Path], typer.Option(help="Count tables, or a folder of them; to be given more than once.")],
    output: Annotated[Path, typer.Option(help="Folder to write: tokenizer.json and its companions, training.json.")],
    vocab_size: Annotated[
        int | None, typer.Option(min=260, max=2**24, help="Entries, special and reserved tokens and bytes included.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help='mixture.json, or {"en": 0.5, ...}; without it counts are taken as they are.')
    ] = None,
    reserved_tokens: Annotated[int | None, typer.Option(min=0, show_default="200", help="Reserved entries.")] = None,
    min_frequency: Annotated[
        int | None, typer.Option(min=1, show_default="2", help="A pair seen less often is not merged.")
    ] = None,
    max_token_bytes: Annotated[int | None, typer.Option(min=2, show_default="64", help="Longest token.")] = None,
    pre_tokenizer: Annotated[
        Literal["bloom", "modern"] | None,
        typer.Option(show_default="as counted, else bloom", help="How text was cut into pieces."),
    ] = None,
    split_digits: Annotated[
        bool | None,
        typer.Option("--split-digits/--no-split-digits", show_default="as counted", help="Every digit is a piece."),
    ] = None,
    max_pieces: Annotated[
        int | None, typer.Option(min=1, show_default="32000000", help="Of more pieces the most frequent are kept.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="tokenizer.json of a run's configuration: what the options do not say.")
    ] = None,
    parts: Annotated[Path | None, typer.Option(help="parts.json: only the tables of these parts of a run.")] = None,
) -> None:
    """Train byte-level BPE from counts of pre-tokens, weighted by a mixture."""
    from bloomery.base.atomic import read_json
    from bloomery.base.errors import ConfigError
    from bloomery.config.stages import TokenizerStage, read_stage
    from bloomery.config.tokens import TokenizerTraining
    from data_prep.tokenizer.count_tables import find_tables
    from data_prep.tokenizer.train import summary, with_pre_tokenizer
    from data_prep.tokenizer.train import train as train_on

    if config is None and vocab_size is None:
        raise ConfigError("is missing", where="--vocab-size", expected="entries of the vocabulary, such as 250680")
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
    settings = TokenizerTraining.model_validate(known | chosen)
    tables = find_tables(counts, None if parts is None else read_json(parts))
    asked = config is not None or pre_tokenizer is not None or split_digits is not None
    settings = with_pre_tokenizer(settings, tables, asked=asked)
    say(summary(train_on(settings, tables, weights, output), output))


@app.command("import")
def import_(
    output: Annotated[Path, typer.Option(help="Folder to write: tokenizer.json, its two companions, origin.json.")],
    name: Annotated[
        str | None, typer.Argument(help="A folder, a tokenizer.json, or OWNER/NAME or OWNER/NAME@REVISION of a Hub.")
    ] = None,
    end_of_document: Annotated[
        str | None, typer.Option(help="Token that ends a document.", show_default="its eos_token")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="tokenizer.json of the configuration, instead of a name and a token.")
    ] = None,
) -> None:
    """Take an existing tokenizer instead of training one, and say what it does to text."""
    from bloomery.base.errors import ConfigError
    from bloomery.config.stages import TokenizerStage, read_stage
    from data_prep.tokenizer.import_tokenizer import import_tokenizer

    most_entries = None
    if config is not None:
        stage = read_stage(config, TokenizerStage).tokenizer
        name, end_of_document, most_entries = stage.existing, stage.end_of_document, stage.vocabulary_size
    if name is None:
        raise ConfigError("names no tokenizer", where="bloomery tokenizer import", expected="NAME, or --config FILE")
    import_tokenizer(name, output, end_of_document=end_of_document, most_entries=most_entries)


app.command()(report)
app.command()(check)
