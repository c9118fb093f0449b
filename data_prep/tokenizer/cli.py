"""Commands of `bloomery tokenizer`: count, train, import, report and check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bloomery.base.progress import say
from data_prep.tokenizer.report.cli import check, report

app = typer.Typer(
    no_args_is_help=True, help="Count pre-tokens; train or import a tokenizer; report on it and check it."
)

Parts = Annotated[Path, typer.Option(help="parts.json, the ordered list of the run's parts.")]


@app.command()
def count(
    shards: Annotated[
        list[Path], typer.Argument(help="Shards, or other Parquet files with the columns language and text.")
    ],
    output: Annotated[Path, typer.Option(help="Count table to write (.parquet).")],
    config: Annotated[
        Path | None,
        typer.Option(help="count.json of a run's configuration. It replaces --pre-tokenizer and --split-digits."),
    ] = None,
    pre_tokenizer: Annotated[
        Literal["bloom", "modern"] | None,
        typer.Option(help="Preset that splits text into pieces.", show_default="bloom"),
    ] = None,
    split_digits: Annotated[bool, typer.Option("--split-digits", help="Make every digit a separate piece.")] = False,
) -> None:
    """Count the pre-tokens of shards per language and sum the counts over all shards."""
    from bloomery.base.errors import ConfigError
    from bloomery.config.stages import CountStage, read_stage
    from data_prep.tokenizer.count_pre_tokens import count_shards, summary

    if config is None:
        stage = CountStage(pre_tokenizer=pre_tokenizer or "bloom", split_digits=split_digits)
    elif pre_tokenizer or split_digits:
        what = "--config already sets --pre-tokenizer and --split-digits"
        raise ConfigError(what, where=str(config), expected="either --config or these options")
    else:
        stage = read_stage(config, CountStage)
    say(summary(count_shards(stage, shards, output), output))


@app.command()
def train(
    counts: Annotated[
        list[Path], typer.Option(help="Count table, or a folder of count tables. The option can be repeated.")
    ],
    output: Annotated[
        Path, typer.Option(help="Folder to write: tokenizer.json, its two companion files, and training.json.")
    ],
    vocab_size: Annotated[
        int | None,
        typer.Option(
            min=260, max=2**24, help="Number of entries, including special tokens, reserved tokens and bytes."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help='mixture.json, or a JSON file such as {"en": 0.5, ...}. Without it, counts are unweighted.'),
    ] = None,
    reserved_tokens: Annotated[
        int | None, typer.Option(min=0, show_default="200", help="Number of reserved tokens.")
    ] = None,
    min_frequency: Annotated[
        int | None, typer.Option(min=1, show_default="2", help="Merge no pair that occurs fewer times than this.")
    ] = None,
    max_token_bytes: Annotated[
        int | None, typer.Option(min=2, show_default="64", help="Greatest length of a token, in bytes.")
    ] = None,
    pre_tokenizer: Annotated[
        Literal["bloom", "modern"] | None,
        typer.Option(show_default="as counted, else bloom", help="Preset that split the text into pieces."),
    ] = None,
    split_digits: Annotated[
        bool | None,
        typer.Option(
            "--split-digits/--no-split-digits",
            show_default="as counted",
            help="Whether every digit is a separate piece.",
        ),
    ] = None,
    max_pieces: Annotated[
        int | None,
        typer.Option(min=1, show_default="32000000", help="Train on at most this many pieces, the most frequent ones."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="tokenizer.json of a run's configuration. Options override its values.")
    ] = None,
    parts: Annotated[
        Path | None, typer.Option(help="parts.json. Read only the tables of these parts of a run.")
    ] = None,
) -> None:
    """Train byte-level BPE from pre-token counts, optionally weighted by a mixture."""
    from bloomery.base.atomic import read_json
    from bloomery.base.errors import ConfigError
    from bloomery.config.load import validate
    from bloomery.config.stages import TokenizerStage, read_stage
    from bloomery.config.tokens import TokenizerTraining
    from data_prep.tokenizer.find_count_tables import find_tables
    from data_prep.tokenizer.train import summary, with_pre_tokenizer
    from data_prep.tokenizer.train import train as train_on

    if config is None and vocab_size is None:
        raise ConfigError(
            "is missing", where="--vocab-size", expected="a number of entries, such as 250680, or --config"
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
    example = "options within the limits of the keys of `tokenizer`"
    settings = validate(known | chosen, TokenizerTraining, where="the options and --config", example=example)
    tables = find_tables(counts, None if parts is None else read_json(parts))
    asked = config is not None or pre_tokenizer is not None or split_digits is not None
    settings = with_pre_tokenizer(settings, tables, asked=asked)
    say(summary(train_on(settings, tables, weights, output), output))


@app.command("import")
def import_(
    output: Annotated[
        Path, typer.Option(help="Folder to write: tokenizer.json, its two companion files, and origin.json.")
    ],
    name: Annotated[
        str | None,
        typer.Argument(help="A folder, a tokenizer.json file, or a Hub repository: OWNER/NAME or OWNER/NAME@REVISION."),
    ] = None,
    end_of_document: Annotated[
        str | None, typer.Option(help="Token that ends a document.", show_default="the tokenizer's eos_token")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="tokenizer.json of a run's configuration. It replaces NAME and --end-of-document."),
    ] = None,
) -> None:
    """Import an existing tokenizer instead of training one, and warn if it does not preserve text."""
    from bloomery.base.errors import ConfigError
    from bloomery.config.stages import TokenizerStage, read_stage
    from data_prep.tokenizer.import_tokenizer import import_tokenizer

    most_entries = None
    if config is not None:
        stage = read_stage(config, TokenizerStage).tokenizer
        name, end_of_document, most_entries = stage.existing, stage.end_of_document, stage.vocabulary_size
    if name is None:
        raise ConfigError(
            "no tokenizer is named",
            where="bloomery tokenizer import",
            expected="NAME, or --config FILE with tokenizer.existing",
        )
    import_tokenizer(name, output, end_of_document=end_of_document, most_entries=most_entries)


app.command()(report)
app.command()(check)
