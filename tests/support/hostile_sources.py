"""Make small checkpoints and models of all layouts that are exported, imported, inspected or resharded."""

from __future__ import annotations

from pathlib import Path

import torch
from fabricated_export import make_tokenizer, random_model
from fabricated_megatron import fabricate_layers, fabricate_universal
from safetensors.torch import save_file

from bloomery.checkpoint.files import random_file
from bloomery.checkpoint.optimizer_state import GroupSettings, OptimizerSettings
from bloomery.checkpoint.write_checkpoint import with_layout, write_checkpoint
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import REFERENCE_NAME, CheckpointManifest
from bloomery.spec.placement import Parameter

DEEPSPEED, TRANSFORMERS, CHECKPOINT = "deepspeed", "transformers", "checkpoint"
"""Folders of checkpoints of Megatron-DeepSpeed, of models of transformers, and of a checkpoint with all its files."""
_SETTINGS = OptimizerSettings(
    moments=("exp_avg", "exp_avg_sq"),
    groups={decays: GroupSettings({}, {"step": torch.tensor(5.0)}) for decays in (True, False)},
)


def make_sources(folder: Path, train: TrainStage, manifest: CheckpointManifest, reference: Path) -> None:
    """Make the folders in `folder`.

    Args:
        folder: new folder.
        train: configuration of the checkpoint.
        manifest: manifest of another checkpoint of the same network.
        reference: file with reference logits, which is copied.
    """
    (folder / DEEPSPEED).mkdir(parents=True)
    fabricate_layers(folder / DEEPSPEED)
    fabricate_universal(folder / DEEPSPEED)
    whole = random_model(train.model, manifest.vocabulary_rows, torch.bfloat16).to(torch.bfloat16)
    for name in ("safetensors", "sharded", "pickled"):
        model = folder / TRANSFORMERS / name
        whole.save_pretrained(model, max_shard_size="20KB" if name == "sharded" else "1GB")
        make_tokenizer(model)
    (model / "model.safetensors").unlink()
    torch.save({key: tensor.clone() for key, tensor in whole.state_dict().items()}, model / "pytorch_model.bin")
    save_file({"states": torch.arange(8)}, folder / "random")
    copies = {random_file(rank): folder / "random" for rank in range(train.training.parallel.world_size)}
    copies[REFERENCE_NAME] = reference
    write_checkpoint(folder / CHECKPOINT, with_layout(manifest, train), _value, _SETTINGS, copies=copies)
    (folder / "random").unlink()


def _value(parameter: Parameter, kind: str, wanted: range | None) -> torch.Tensor:
    """Return values of a parameter that depend on the position."""
    dimension, shape = parameter.placement.dimension, list(parameter.shape)
    values = torch.arange(parameter.count, dtype=torch.float32).reshape(shape) / 1024
    return values if dimension is None or wanted is None else values.narrow(dimension, wanted.start, len(wanted))
