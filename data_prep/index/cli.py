"""`bloomery index`: encode, build, verify, mixture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Encode shards to Megatron token files, build and verify the index.")

Index = Annotated[Path, typer.Option(help="Folder of the index.")]
Tokenizer = Annotated[Path, typer.Option(help="tokenizer.json.")]


@app.command()
def encode(
    tokenizer: Tokenizer,
    input: Annotated[Path, typer.Option(help="A clean shard.")],
    output: Annotated[Path, typer.Option(help="The .idx to write; .bin and sidecar share its stem.")],
) -> None:
    """Encode one clean shard to a Megatron .bin/.idx pair and a sidecar of its documents."""
    from data_prep.index.encode import encode_shard

    encode_shard(tokenizer, input, output)


@app.command()
def build(
    config: Annotated[Path, typer.Option(help="index.json of the configuration: this stage's part.")],
    index: Index,
    parts: Annotated[Path, typer.Option(help="parts.json: the run's parts in order.")],
    mixture: Annotated[Path, typer.Option(help="mixture.json.")],
    tokenizer: Tokenizer,
    output: Annotated[Path, typer.Option(help="The index.json to write, in the index folder.")],
) -> None:
    """Build the sample, shuffle and blend arrays and index.json."""
    from bloomery.base.atomic import read_json
    from bloomery.config.stages import IndexStage, read_stage
    from data_prep.index.build import build_index

    build_index(read_stage(config, IndexStage), index, read_json(parts), mixture, tokenizer, output)


@app.command()
def verify(
    index: Index,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check every promise of the index; exit code 1 says what does not hold."""
    from bloomery.base.atomic import dump_json
    from bloomery.base.progress import say
    from data_prep.index.verify import verify_index

    result = verify_index(index)
    if json:
        print(dump_json(result), end="")
    else:
        say(f"the index holds: {result['train_samples']} training samples, {result['tokens']} tokens")


@app.command()
def mixture(
    index: Index,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Print what the training reads of each language and source: tokens, share, epochs."""
    from bloomery.base.atomic import dump_json
    from bloomery.contracts.index import read_index_manifest
    from data_prep.index.mix import lines

    manifest = read_index_manifest(index / "index.json")
    if json:
        print(dump_json({code: entry.model_dump() for code, entry in manifest.languages.items()}), end="")
    else:
        print("\n".join(lines(manifest)))
