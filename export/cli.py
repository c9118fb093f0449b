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
        Path | None,
        typer.Option(
            help="Folder to write the model to. The folder is created or replaced only after the model has been "
            "verified."
        ),
    ] = None,
    result: Annotated[
        Path | None,
        typer.Option(
            help="File that records the run's model (runs/<name>/results/export/<model>.json). Give either --result "
            "or --output. With --result, the model is in runs/<name>/export/<model>. The previous model is replaced "
            "only after the new model has been verified."
        ),
    ] = None,
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
    from bloomery.contracts.paths import RunPaths
    from bloomery.contracts.result import Place
    from export.export_model import export_model, export_result

    if (output is None) == (result is None):
        raise ConfigError(
            "--output and --result are both given or both missing",
            expected="--output to write the model to a folder, or --result to replace the model of the run",
        )
    limit = shard_bytes(max_shard_size)
    stage, paths = read_stage(config, ExportStage), RunPaths(run)
    if result is not None:
        place = Place.of(result)
        export_result(stage, paths, place, checkpoint_name=checkpoint, max_shard_bytes=limit)
        print(place.shown / stage.model_name)
    elif output is not None:
        export_model(stage, paths, output, checkpoint_name=checkpoint, max_shard_bytes=limit)
        print(output)


def shard_bytes(text: str) -> int:
    """Return the value of the option `--max-shard-size` in bytes.

    Raises:
        ConfigError: the value is not a size.
    """
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ConfigError(f"--max-shard-size {text!r} is not a size in bytes", expected=str(error)) from error
