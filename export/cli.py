"""`bloomery export`: the command line of `export.export_model`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.errors import ConfigError
from bloomery.base.units import parse_bytes

app = typer.Typer(no_args_is_help=True, help="Export a checkpoint as a transformers model and verify it.")


@app.callback()
def _root() -> None:
    """Keep `model` as a subcommand, although it is the only one."""


@app.command("model")
def model(
    config: Annotated[
        Path, typer.Option(help="The export's section of the configuration (runs/<name>/config/export.json).")
    ],
    run: Annotated[Path, typer.Option(help="Folder of the run.")],
    output: Annotated[Path, typer.Option(help="Path of parity.json in the folder of the exported model.")],
    checkpoint: Annotated[
        str | None, typer.Option(help="Name of a checkpoint in train/checkpoints; default: the last of the training.")
    ] = None,
    max_shard_size: Annotated[str, typer.Option(help="Largest size of a weight file.")] = "5GB",
) -> None:
    """Export a checkpoint. The folder appears only if its logits match those of the training model."""
    from bloomery.config.stages import ExportStage, read_stage
    from bloomery.contracts.parity import PARITY_NAME
    from bloomery.contracts.paths import RunPaths
    from export.export_model import export_model

    if output.name != PARITY_NAME:
        raise ConfigError(
            f"--output {output} is not the path of a {PARITY_NAME}", expected=f"export/<model>/{PARITY_NAME}"
        )
    try:
        limit = parse_bytes(max_shard_size)
    except ValueError as error:
        raise ConfigError(f"--max-shard-size {max_shard_size!r} is not a size", expected=str(error)) from error
    export_model(
        read_stage(config, ExportStage),
        RunPaths(run),
        output.parent,
        checkpoint_name=checkpoint,
        max_shard_bytes=limit,
    )
    print(output)
