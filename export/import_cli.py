"""`bloomery import`: the command line of `export.from_transformers.import_model`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Import a model as a checkpoint, to train it further.")


class Precision(StrEnum):
    """Precision of an imported checkpoint."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"


@app.callback()
def _root() -> None:
    """Make Typer require the subcommand `hf`, although there is no other subcommand."""


@app.command("hf")
def hf(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder that transformers saved, or OWNER/NAME[@REVISION] of a model on a Hub. Supported: BLOOM, "
            "GPT-2, and GPT-NeoX without parallel residual.",
        ),
    ],
    output: Annotated[
        Path, typer.Option(help="New folder for the checkpoint and the tokenizer, such as imports/bloom-560m.")
    ],
    tensor: Annotated[int, typer.Option(min=1, max=100_000, help="Tensor-parallel size of the checkpoint.")] = 1,
    pipeline: Annotated[int, typer.Option(min=1, max=100_000, help="Number of pipeline stages.")] = 1,
    precision: Annotated[
        Precision | None,
        typer.Option(help="Precision of the checkpoint. Default: the data type of the model's weights."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="Folder, tokenizer.json or OWNER/NAME[@REVISION] of the tokenizer. Default: that of MODEL."),
    ] = None,
) -> None:
    """Import a model of transformers as a checkpoint at step 0.

    The key training.initial_checkpoint of a run starts a training with it, on any layout. The folder is created only if
    the checkpoint computes the same logits as transformers.
    """
    from export.from_transformers.import_model import Layout, import_model

    chosen = None if precision is None else precision.value
    import_model(model, output, Layout(tensor, pipeline), precision=chosen, tokenizer=tokenizer)
    print(output)
