"""`bloomery encode`: encode shards of documents into one Megatron `.bin/.idx` pair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command()
def encode(
    shards: Annotated[list[Path], typer.Argument(help="Shards of documents (Parquet), in order. They form one pair.")],
    tokenizer: Annotated[Path, typer.Option(help="tokenizer.json, or the folder that holds it.")],
    output: Annotated[
        Path,
        typer.Option(help="The pair's path without suffix, or its .idx. The sidecar is written to the same folder."),
    ],
    survivors: Annotated[
        list[Path] | None,
        typer.Option(
            help="Table of kept documents whose cluster of duplicates has several kept documents. May be repeated."
        ),
    ] = None,
) -> None:
    """Encode shards of documents into one Megatron .bin/.idx pair and a sidecar that describes the documents."""
    import shlex
    import time

    from bloomery.base.progress import say
    from bloomery.contracts.tokenizer import tokenizer_file
    from data_prep.index.adopt import prefix_of
    from data_prep.index.encode import encode_shards

    start = time.monotonic()
    prefix = prefix_of(output)
    counts = encode_shards(tokenizer_file(tokenizer), shards, prefix, survivors or [])["counts"]
    text_bytes = sum(language["bytes"] for language in counts["languages"].values())
    say(
        f"encoded {counts['documents']:,} documents, {text_bytes / 1e6:,.1f} MB of text, to {counts['tokens']:,} tokens"
        f" ({text_bytes / max(counts['tokens'], 1):.2f} bytes per token)"
        f" at {text_bytes / 1e6 / max(time.monotonic() - start, 1e-3):,.1f} MB/s"
    )
    pair, file = shlex.quote(f"{prefix}.idx"), shlex.quote(str(tokenizer))
    say(
        f"next: bloomery index build {pair} --tokenizer {file} --sequence-length 2048 --samples 1000 --output DIR, "
        f"with all pairs as arguments. For Megatron-LM, use --data-path {shlex.quote(str(prefix))}"
    )
