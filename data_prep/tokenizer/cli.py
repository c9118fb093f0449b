"""`bloomery tokenizer`: count, train, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Count pre-tokens, train the tokenizer, report its fertility.")

Parts = Annotated[Path, typer.Option(help="parts.json: the run's parts in order.")]


@app.command()
def count(
    config: Annotated[Path, typer.Option(help="count.json: this stage's part of the configuration.")],
    input: Annotated[Path, typer.Option(help="A clean shard.")],
    output: Annotated[Path, typer.Option(help="The count table to write.")],
) -> None:
    """Count the pre-tokens of one clean shard per language."""
    from bloomery.config.stages import CountStage, read_stage
    from data_prep.tokenizer.count import count_shard

    count_shard(read_stage(config, CountStage), input, output)


@app.command()
def train(
    config: Annotated[Path, typer.Option(help="tokenizer.json of the configuration: this stage's part.")],
    counts: Annotated[Path, typer.Option(help="Folder of the count tables.")],
    parts: Parts,
    mixture: Annotated[Path, typer.Option(help="mixture.json.")],
    output: Annotated[Path, typer.Option(help="The tokenizer.json to write; its other files lie beside it.")],
) -> None:
    """Train byte-level BPE on the counts, weighted by the mixture."""
    from bloomery.base.atomic import read_json
    from bloomery.config.stages import TokenizerStage, read_stage
    from data_prep.tokenizer.train import train_tokenizer

    train_tokenizer(read_stage(config, TokenizerStage), counts, read_json(parts), mixture, output)


@app.command()
def report(
    tokenizer: Annotated[Path, typer.Option(help="tokenizer.json.")],
    corpus: Annotated[Path, typer.Option(help="Folder of the corpus; its clean/ is read.")],
    parts: Parts,
    output_json: Annotated[Path, typer.Option(help="Report as JSON.")],
    output_html: Annotated[Path, typer.Option(help="Report as one HTML page.")],
) -> None:
    """Report fertility per language on a fixed sample of documents."""
    from bloomery.base.atomic import read_json, write_json, write_text
    from data_prep.tokenizer.page import render
    from data_prep.tokenizer.report import fertility_report

    found = fertility_report(tokenizer, corpus / "clean", read_json(parts))
    write_text(output_html, render(found))
    write_json(output_json, found)
