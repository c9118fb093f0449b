"""`bloomery export`: the command line of `export.export_model`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.errors import ConfigError
from bloomery.base.units import parse_bytes

app = typer.Typer(no_args_is_help=True, help="Export a checkpoint as a transformers model and verify the model.")


@app.callback()
def _root() -> None:
    """Make Typer require the subcommand `model`, although there is no other subcommand."""


@app.command("model")
def model(
    config: Annotated[Path, typer.Option(help="Configuration of the export (runs/<name>/config/export.json).")],
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/<name>.")],
    output: Annotated[
        Path,
        typer.Option(
            help="File to write the result of the verification to (runs/<name>/export/<model>/parity.json). The model "
            "is exported to the folder of this file."
        ),
    ],
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Name of the checkpoint to export, such as step00001200 in train/checkpoints. Default: the last "
            "checkpoint of the finished training."
        ),
    ] = None,
    max_shard_size: Annotated[
        str,
        typer.Option(
            help="Maximum size of a weight file of the exported model, such as 5GB. "
            "A larger tensor gets a file of its own."
        ),
    ] = "5GB",
) -> None:
    """Export a checkpoint as a transformers model.

    The model's folder is created only if the exported model gives the same logits as the training model.
    """
    from bloomery.config.stages import ExportStage, read_stage
    from bloomery.contracts.parity import PARITY_NAME
    from bloomery.contracts.paths import RunPaths
    from export.export_model import export_model

    if output.name != PARITY_NAME:
        raise ConfigError(
            f"--output {output} is not the path of a file {PARITY_NAME}",
            expected=f"a path such as runs/<name>/export/<model>/{PARITY_NAME}",
        )
    try:
        limit = parse_bytes(max_shard_size)
    except ValueError as error:
        raise ConfigError(f"--max-shard-size {max_shard_size!r} is not a size in bytes", expected=str(error)) from error
    export_model(
        read_stage(config, ExportStage),
        RunPaths(run),
        output.parent,
        checkpoint_name=checkpoint,
        max_shard_bytes=limit,
    )
    print(output)
