"""Load a checkpoint of any layout into a trainer of any other layout.

Weights, fp32 master weights, moments, step counts and the loss scale are loaded. Every element is copied and none is
computed, so assembled tensors are equal bit for bit. Each rank reads only its own parts, one parameter at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bloomery.base.errors import CheckFailedError, ConfigError
from bloomery.checkpoint.files import OTHER_CHECKPOINT
from bloomery.checkpoint.master_weights import check_rounded
from bloomery.checkpoint.merge import part_of
from bloomery.checkpoint.optimizer_state import MASTER, OptimizerState
from bloomery.checkpoint.weights import Checkpoint
from bloomery.config.training import OptimizerConfig
from bloomery.contracts.checkpoint import CheckpointManifest
from bloomery.contracts.resume_policy import saved_stage
from bloomery.spec.weight_files import PRECISION_DTYPES
from training.loop.build_engine import Trainer
from training.optim.builder import set_step_count
from training.optim.lamb import PREVIOUS_SUMS, Lamb
from training.optim.lamb_passes import moments_of

_SCALE_KEYS = ("cur_scale", "cur_iter", "last_overflow_iter", "cur_hysteresis")
"""State of a dynamic loss scale that is restored. Its limits and window come from the configuration."""


def load_checkpoint(trainer: Trainer, folder: Path, manifest: CheckpointManifest, *, verified: bool = False) -> None:
    """Load the checkpoint in `folder` into `trainer`.

    This function is not collective: if one rank fails, only that rank raises an error. The state of the trainer is then
    undefined, and a later successful call overwrites all of it.

    Args:
        trainer: trainer of any layout, built with the checkpoint's embedding rows
            (`bloomery.checkpoint.embedding_rows`).
        folder: folder of the checkpoint.
        manifest: manifest of the checkpoint.
        verified: whether the hashes of all files have just been compared with the manifest. If false, this rank hashes
            each file that it reads.

    Raises:
        ConfigError: the checkpoint has a different number of embedding rows, a different precision, or an optimizer
            with different moments.
        InputError: the checkpoint belongs to a different network, or a file is damaged.
        CheckFailedError: a file differs from the manifest, replicas differ, or weights differ from their fp32 master
            weights.
    """
    checkpoint = Checkpoint(folder, trainer.stage.model, verified=verified)
    _check_fits(trainer, checkpoint)
    state = OptimizerState(checkpoint)
    _check_moments(trainer, checkpoint, state)
    moments = _new_moments(trainer, state)
    mesh, modules = trainer.mesh, trainer.network.local_modules()
    saved = getattr(torch, PRECISION_DTYPES[checkpoint.trained_with("precision")])
    with torch.no_grad():
        for parameter in checkpoint.parameters:
            held = [layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules]
            if not held:
                continue
            target: Any = modules[held[0]].get_parameter(parameter.local_name)
            wanted = part_of(parameter, mesh.tensor_rank, mesh.tensor_size)
            weight = checkpoint.weight(parameter, saved, wanted)
            target.data.copy_(weight)
            mapping = target._hp_mapping
            if mapping is None:
                # With ZeRO, another replica holds this parameter's optimizer state and checks it.
                continue
            master = state.part(parameter, MASTER, wanted)
            check_rounded(parameter, master, weight, folder)
            here, there = mapping.lp_fragment_address, mapping.hp_fragment_address
            mapping.hp_fragment.data.copy_(master.flatten().narrow(0, here.start, here.numel))
            for kind, flats in moments.items():
                moment = state.part(parameter, kind, wanted).flatten().narrow(0, here.start, here.numel)
                flats[mapping.param_group_index].narrow(0, there.start, there.numel).copy_(moment)
    _take_counters(trainer, manifest, state)


def _check_fits(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Raise ConfigError if the embedding rows or the precision of trainer and checkpoint differ."""
    rows, precision = checkpoint.manifest.vocabulary_rows, checkpoint.trained_with("precision")
    if trainer.vocabulary_rows != rows:
        raise ConfigError(
            f"the network has {trainer.vocabulary_rows} embedding rows",
            where="model.padded_vocabulary_size",
            expected=f"{rows} embedding rows, as in the checkpoint",
        )
    if trainer.stage.training.precision != precision:
        raise ConfigError(
            f"the checkpoint {checkpoint.folder.name} was trained in {precision}",
            where="training.precision",
            expected=precision,
        )


def _check_moments(trainer: Trainer, checkpoint: Checkpoint, state: OptimizerState) -> None:
    """Check that the saved optimizer state has the moments and the step count of the configured optimizer.

    Raises:
        CheckFailedError: the checkpoint lacks a part of the state of the optimizer that it was trained with.
        ConfigError: the checkpoint was trained with another optimizer.
    """
    manifest = checkpoint.manifest
    kinds = [kind for kind in state.kinds if kind != MASTER]
    expected = _moments_of(trainer)
    if set(kinds) == set(expected) and (state.step is not None or "exp_avg" not in kinds):
        return
    # A checkpoint saved before the first update has no moments.
    if not kinds and manifest.iteration <= manifest.skipped_updates:
        return
    if kinds and not _same_optimizer(trainer, manifest):
        raise ConfigError(
            f"the checkpoint's optimizer has the moments {', '.join(sorted(kinds))}",
            where="training.optimizer",
            expected=f"{_described(saved_stage(manifest).training.optimizer)}, as in the checkpoint; the moments of "
            f"the configured optimizer are: {', '.join(expected) or 'none'}",
        )
    raise CheckFailedError(
        f"the optimizer state has the moments {', '.join(sorted(kinds)) or 'none'} and the step count {state.step}",
        where=str(checkpoint.folder),
        expected=f"the moments {', '.join(expected) or 'none'}, and a step count for Adam and LAMB; {OTHER_CHECKPOINT}",
    )


def _same_optimizer(trainer: Trainer, manifest: CheckpointManifest) -> bool:
    """Whether the checkpoint was trained with the configured kind of optimizer and with the same moments."""
    before, now = saved_stage(manifest).training.optimizer, trainer.stage.training.optimizer
    return _described(before) == _described(now)


def _described(optimizer: OptimizerConfig) -> str:
    """Describe the keys that decide which moments an optimizer has."""
    if optimizer.kind == "lamb":
        if optimizer.lamb.dialect == "innovation":
            return "kind 'lamb' with lamb.dialect 'innovation'"
        return "kind 'lamb' with another lamb.dialect than 'innovation'"
    if optimizer.momentum:
        return f"kind {optimizer.kind!r} with momentum {optimizer.momentum:g}"
    return f"kind {optimizer.kind!r}"


def _new_moments(trainer: Trainer, state: OptimizerState) -> dict[str, list[torch.Tensor]]:
    """Create zero-filled moments in the base optimizer and return them.

    For each kind of moment there is one flat tensor per parameter group. Its padding stays zero.
    """
    wrapper = trainer.engine.optimizer
    base = wrapper.optimizer
    kinds = [kind for kind in state.kinds if kind != MASTER]
    flats = [flat for group in base.param_groups for flat in group["params"]]
    base.state.clear()
    for flat in flats:
        base.state[flat].update({kind: torch.zeros_like(flat, requires_grad=False) for kind in kinds})
    # Make DeepSpeed's wrapper link its parameters to the new state at the next step.
    wrapper._hp_optimizer_states_linked = False
    return {kind: [base.state[flat][kind] for flat in flats] for kind in kinds}


def _moments_of(trainer: Trainer) -> tuple[str, ...]:
    """Return the names of the moments that the configured optimizer keeps."""
    optimizer = trainer.stage.training.optimizer
    if optimizer.kind == "lamb":
        return moments_of(optimizer)
    if optimizer.kind == "adam":
        return "exp_avg", "exp_avg_sq"
    return ("momentum_buffer",) if optimizer.momentum else ()


def _take_counters(trainer: Trainer, manifest: CheckpointManifest, state: OptimizerState) -> None:
    """Set the optimizer's step count, the engine's counters and the dynamic loss scale from the checkpoint."""
    engine = trainer.engine
    # Without a step count, the optimizer has not made an update, or it does not count updates. Set the count to 0 then,
    # because a damaged checkpoint that was loaded before may have set another count.
    base = engine.optimizer.optimizer
    set_step_count(base, int(state.step or 0))
    if isinstance(base, Lamb):
        options = next((group.options for group in state.settings.groups.values()), {})
        base.load_sums(options.get(PREVIOUS_SUMS))
    engine.global_steps = manifest.iteration
    engine.global_samples = manifest.consumed_samples
    scaler = getattr(engine.optimizer, "loss_scaler", None)
    if scaler is not None and scaler.dynamic:
        for key in _SCALE_KEYS:
            if key in state.loss_scaler:
                setattr(scaler, key, state.loss_scaler[key])
