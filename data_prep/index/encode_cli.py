"""`bloomery encode`: encode shards of documents into one Megatron `.bin/.idx` pair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command()
def encode(
    shards: Annotated[
        list[Path],
        typer.Argument(help="Shards (Parquet files of documents) to encode, in this order, into one pair of files."),
    ],
    tokenizer: Annotated[
        Path, typer.Option(help="Tokenizer to encode with: tokenizer.json or the folder that holds it.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            help="Path of the .idx to write, or the same path without suffix. The .bin and the table of the documents "
            "are written beside it."
        ),
    ],
    survivors: Annotated[
        list[Path] | None,
        typer.Option(
            help="Table that `bloomery corpus dedup resolve --survivors` wrote. The documents of one cluster (similar "
            "documents that were kept) are all used for training or all for validation. The option may be repeated."
        ),
    ] = None,
) -> None:
    """Encode shards of documents into one pair of Megatron token files (.bin, .idx) and a table of the documents."""
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
        f"with the .idx of every pair of token files to index. For Megatron-LM, use --data-path "
        f"{shlex.quote(str(prefix))}"
    )
