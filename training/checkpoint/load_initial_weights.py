"""Load the weights of another training's checkpoint, or of an imported model, as the initial weights of a training.

Only the fp32 master weights are loaded, from any layout and in any precision, and rounded to the precision of the
training. The training starts at step 0 with an empty optimizer state. Masked rows of the embedding that the checkpoint
lacks are zero.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from bloomery.base.digest import digest_file, sha256_file
from bloomery.base.errors import CheckFailedError, ConfigError
from bloomery.base.progress import say
from bloomery.checkpoint.merge import part_of
from bloomery.checkpoint.optimizer_state import MASTER, OptimizerState
from bloomery.checkpoint.weights import Checkpoint
from bloomery.contracts.checkpoint import MANIFEST_NAME, CheckpointManifest
from bloomery.contracts.index_manifest import IndexManifest
from bloomery.contracts.initial_checkpoint import (
    KEY,
    checkpoint_folder,
    read_initial,
    refuse_other_network,
    tokenizer_file,
)
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Parameter
from training.checkpoint.collective_calls import damage_on_any_rank, from_every_rank, from_rank_0
from training.checkpoint.continuity import check_initial_weights
from training.checkpoint.find_checkpoint import verify_share
from training.checkpoint.finite import not_finite_in_trainer
from training.loop.build_engine import Trainer


def load_initial_weights(trainer: Trainer, place: str, index: IndexManifest) -> None:
    """Set the weights and the fp32 master weights to those of the checkpoint `place`. Collective.

    Args:
        trainer: trainer of any layout. It may have another number of masked rows than the checkpoint.
        place: value of `training.initial_checkpoint`.
        index: manifest of the token index.

    Raises:
        ConfigError: there is no checkpoint, or it has another network or another tokenizer.
        CheckFailedError: the checkpoint changed since the workflow started or is damaged, or the loaded network does
            not compute the reference logits of the checkpoint.
    """
    folder = checkpoint_folder(place)
    manifest = from_rank_0(partial(_read, trainer, place, index))
    problem = damage_on_any_rank(partial(verify_share, folder, manifest)) or damage_on_any_rank(
        partial(_load, trainer, folder)
    )
    if problem is not None:
        raise CheckFailedError(
            f"the checkpoint is damaged: {problem}",
            where=str(folder),
            expected=f"an undamaged checkpoint for {KEY}; import the model again, or choose another checkpoint",
        )
    broken = next((found for found in from_every_rank(lambda: not_finite_in_trainer(trainer)) if found), None)
    if broken is not None:
        raise CheckFailedError(
            f"{broken} is not finite in {trainer.stage.training.precision}",
            where=str(folder),
            expected="weights that are finite in training.precision; 'bf16' and 'fp32' have the largest range",
        )
    continuity = check_initial_weights(trainer, folder, manifest)
    if trainer.mesh.rank == 0:
        said = "" if continuity is None else f": {continuity}"
        say(f"the training starts with the weights of {place}{said}")


def _read(trainer: Trainer, place: str, index: IndexManifest) -> CheckpointManifest:
    """Read the manifest of the checkpoint, and compare it with the configuration and the index."""
    manifest, folder, stage = read_initial(place), checkpoint_folder(place), trainer.stage
    if stage.initial is not None and sha256_file(folder / MANIFEST_NAME) != stage.initial.digest:
        raise CheckFailedError(
            "the checkpoint has changed since the workflow started",
            where=str(folder),
            expected="the same checkpoint until the training has saved its first checkpoint; start the workflow again",
        )
    refuse_other_network(manifest, stage.model, stage.training.parallel.tensor)
    tokenizer = tokenizer_file(place)
    if index.vocabulary_size != manifest.vocabulary_size or (
        tokenizer is not None and digest_file(tokenizer) != index.tokenizer_digest
    ):
        raise ConfigError(
            f"the tokenizer of the run is not that of the checkpoint: they have {index.vocabulary_size} and "
            f"{manifest.vocabulary_size} entries",
            where="tokenizer.existing",
            expected="the tokenizer of the checkpoint" + (f": {tokenizer.parent}" if tokenizer is not None else ""),
        )
    return manifest


@torch.no_grad()
def _load(trainer: Trainer, folder: Path) -> None:
    """Load this rank's part of the weights. The files were just compared with the manifest.

    Raises:
        CheckFailedError: a file has wrong tensors, or replicas differ.
        InputError: a file is damaged.
    """
    checkpoint = Checkpoint(folder, verified=True)
    state = OptimizerState(checkpoint)
    mesh, modules = trainer.mesh, trainer.network.local_modules()
    wanted = declare(trainer.stage.model, trainer.vocabulary_rows)
    for parameter, saved in zip(wanted, checkpoint.parameters, strict=True):
        held = [layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules]
        if not held:
            continue
        target: Any = modules[held[0]].get_parameter(parameter.local_name)
        weight = _part(state, saved, part_of(parameter, mesh.tensor_rank, mesh.tensor_size))
        target.data.copy_(weight)
        if (mapping := getattr(target, "_hp_mapping", None)) is not None:
            here = mapping.lp_fragment_address
            mapping.hp_fragment.data.copy_(weight.flatten().narrow(0, here.start, here.numel))


def _part(state: OptimizerState, saved: Parameter, wanted: range | None) -> torch.Tensor:
    """Return the indices `wanted` of the split dimension in fp32. Indices that the checkpoint lacks are zero."""
    dimension = saved.placement.dimension
    if wanted is None or dimension is None:
        return state.part(saved, MASTER)
    size = saved.shape[dimension]
    there = range(min(wanted.start, size), min(wanted.stop, size))
    if len(there) == len(wanted):
        return state.part(saved, MASTER, there)
    found = torch.zeros(*saved.shape[:dimension], len(wanted), *saved.shape[dimension + 1 :])
    if there:
        found.narrow(dimension, 0, len(there)).copy_(state.part(saved, MASTER, there))
    return found
