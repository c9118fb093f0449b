"""Recognise the layout of a checkpoint of another project, and open the checkpoint."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.checkpoint.foreign.arguments import read_arguments
from bloomery.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint, OnDrift
from bloomery.checkpoint.foreign.layer_files import LayerFiles, layer_files
from bloomery.checkpoint.foreign.universal import FILE, FOLDER, Universal
from bloomery.contracts.checkpoint import MANIFEST_NAME


def open_checkpoint(folder: Path, dtype: str | None, on_drift: OnDrift | None) -> ForeignCheckpoint:
    """Open the checkpoint in `folder`. `ForeignCheckpoint.inspect` must be called before it is read.

    Args:
        folder: folder with layer files, or with the folder `zero` of a universal checkpoint.
        dtype: data type of the exported weights; None for the type of the weights in the checkpoint.
        on_drift: value that replaces differing replicas; None if they are an error.

    Raises:
        InputError: the folder has another layout, a file is missing or damaged, or Bloomery does not support the
            network.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder", where=str(folder), expected="the folder of a checkpoint")
    if (folder / MANIFEST_NAME).is_file():
        raise InputError(
            "this is a checkpoint of Bloomery",
            where=str(folder),
            expected="a checkpoint of Megatron-DeepSpeed; export this one with `bloomery export model`",
        )
    if any((folder / FOLDER).glob(f"*/{FILE}")):
        # A universal checkpoint holds fp32 weights. Rounded to the training's type, they equal the trained weights.
        return Universal(folder, rounded=dtype not in (None, "float32") and dtype == read_arguments(folder).dtype)
    if layer_files(folder):
        return LayerFiles(folder, on_drift)
    inner = sorted(path.name for path in folder.glob("global_step*") if path.is_dir())
    hint = f"; this folder contains {', '.join(inner[:3])}" if inner else ""
    raise InputError(
        f"the folder holds neither layer files nor a universal checkpoint{hint}",
        where=str(folder),
        expected="a folder such as global_step1000 with files layer_XX-model_YY-model_states.pt, or with a folder "
        "zero. Trainings without pipeline stages (mp_rank_* files only) are not read",
    )
