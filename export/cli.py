"""`bloomery export`: the command line of `export.export_model`."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.errors import ConfigError
from bloomery.base.units import parse_bytes

app = typer.Typer(no_args_is_help=True, help="Export a checkpoint as a transformers model and verify the model.")


class _Dtype(StrEnum):
    """Values of --dtype."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class _Vocabulary(StrEnum):
    """Values of --vocabulary."""

    KEEP = "keep"
    TRIM = "trim"


class _OnDrift(StrEnum):
    """Values of --on-drift."""

    MEAN_FP32 = "mean-fp32"
    RANK0 = "rank0"


MaxShardSize = Annotated[
    str,
    typer.Option(
        help="Maximum size of a weight file of the exported model, such as 5GB. A larger tensor gets a file of its own."
    ),
]


@app.command("model")
def model(
    config: Annotated[Path, typer.Option(help="Configuration of the export (runs/<name>/config/export.json).")],
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/<name>.")],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write the model to. The folder is created only after the model has been verified. An "
            "earlier export in this folder is replaced; any other existing folder that is not empty is an error."
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
    max_shard_size: MaxShardSize = "5GB",
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


@app.command("deepspeed")
def deepspeed(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of the checkpoint, such as global_step95000, with the layer files of Megatron-DeepSpeed; or a "
            "universal checkpoint of DeepSpeed, with a folder zero."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            help="Folder to write the model to. The folder is created only after the model has been verified. An "
            "earlier export in this folder is replaced; any other existing folder that is not empty is an error."
        ),
    ],
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="Folder with tokenizer.json and tokenizer_config.json. Default: the model is written without a "
            "tokenizer."
        ),
    ] = None,
    dtype: Annotated[
        _Dtype | None,
        typer.Option(
            help="Data type of the written weights: the type of the training, or float32. Default: the type of the "
            "weights in the checkpoint, which is float32 in a universal checkpoint."
        ),
    ] = None,
    on_drift: Annotated[
        _OnDrift | None,
        typer.Option(
            help="Value that replaces replicas that differ between tensor ranks. mean-fp32: their mean, computed in "
            "more than 16 bits. rank0: the replica of the first rank. Default: such replicas are an error."
        ),
    ] = None,
    vocabulary: Annotated[
        _Vocabulary,
        typer.Option(
            help="Rows of the embedding that are written. keep: all rows of the checkpoint. trim: only the rows of "
            "the tokenizer's entries."
        ),
    ] = _Vocabulary.KEEP,
    tolerance: Annotated[
        float,
        typer.Option(
            help="Maximum difference between the fp32 logits of the written model and of the checkpoint's unmerged "
            "weights, relative to the largest logit.",
        ),
    ] = 1e-4,
    max_shard_size: MaxShardSize = "5GB",
) -> None:
    """Export a checkpoint of Megatron-DeepSpeed as a transformers model.

    The model's folder is created only if the exported model gives the same logits as the unmerged weights of the
    checkpoint. The checkpoint's files are read without running any code that they name.
    """
    from export.foreign_export import ForeignSettings, export_foreign

    _check_tolerance(tolerance)
    settings = ForeignSettings(
        tokenizer=tokenizer,
        dtype=None if dtype is None else dtype.value,
        on_drift=None if on_drift is None else on_drift.value,
        vocabulary=vocabulary.value,
        tolerance=tolerance,
        max_shard_bytes=shard_bytes(max_shard_size),
    )
    export_foreign(folder, output, settings)
    print(output)


def _check_tolerance(tolerance: float) -> None:
    """Raise ConfigError if the value of the option `--tolerance` is not a positive number."""
    if not (tolerance > 0 and math.isfinite(tolerance)):
        raise ConfigError(f"--tolerance is {tolerance:g}", expected="a positive number, such as 1e-4")


def shard_bytes(text: str) -> int:
    """Return the value of the option `--max-shard-size` in bytes.

    Raises:
        ConfigError: the value is not a size.
    """
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ConfigError(f"--max-shard-size {text!r} is not a size in bytes", expected=str(error)) from error
