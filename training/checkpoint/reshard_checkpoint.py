"""Write a checkpoint again for another layout, in one process: `bloomery checkpoint reshard`.

A training loads a checkpoint of any layout, so it does not need this command. Resharding is useful if a checkpoint is
moved to machines with fewer or more GPUs, or if another program needs files of a certain layout. No value is computed,
so all weights, master weights and moments stay equal bit for bit.
"""

from __future__ import annotations

from pathlib import Path

import torch

from bloomery.base.errors import InputError
from bloomery.checkpoint.drift import DriftError, how_to_repair
from bloomery.checkpoint.embedding_rows import embedding_rows
from bloomery.checkpoint.files import random_file
from bloomery.checkpoint.master_weights import check_rounded
from bloomery.checkpoint.optimizer_state import MASTER, OptimizerState
from bloomery.checkpoint.software_versions import software_versions
from bloomery.checkpoint.weights import Checkpoint
from bloomery.checkpoint.write_checkpoint import with_layout, write_checkpoint
from bloomery.checks.check_training import layout_contradictions, section_contradictions
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import REFERENCE_BEFORE_REPAIR_NAME, REFERENCE_NAME, CheckpointManifest
from bloomery.contracts.resume_policy import changes_since, saved_stage
from bloomery.spec.placement import Parameter
from bloomery.spec.weight_files import PRECISION_DTYPES
from training.checkpoint.needed_files import check_needed_files


def reshard_checkpoint(
    folder: Path, target: Path, *, tensor: int, pipeline: int, data: int | None = None
) -> CheckpointManifest:
    """Write the checkpoint in `folder` for another layout to the new folder `target`. Return the new manifest.

    Weights, master weights, moments, step counts, loss scale, random number states and reference logits are kept. The
    change of the layout is recorded in the manifest, as for a training that resumes on another layout.

    Args:
        folder: folder of the checkpoint.
        target: the new folder. It appears complete or not at all.
        tensor: new tensor-parallel size.
        pipeline: new pipeline-parallel size.
        data: new number of replicas; None for the checkpoint's number.

    Raises:
        InputError: the checkpoint cannot be read, its network or its batch cannot be divided by the layout, or
            `target` exists.
        ConfigError: the embedding rows cannot be divided among the tensor ranks.
        CheckFailedError: a file differs from the manifest, or copies of a state differ.
        ResourceError: the disk is full or not writable.
        TryAgainError: another process is writing `target`.
    """
    if target.exists():
        raise InputError(
            "the output exists already", where=str(target), expected="--output with the path of a new folder"
        )
    if target.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            "the output is inside the checkpoint", where=str(target), expected="--output outside the checkpoint"
        )
    checkpoint = Checkpoint(folder)
    manifest = checkpoint.manifest
    check_needed_files(folder, manifest)
    stage = _resharded_stage(manifest, tensor, pipeline, manifest.data_parallel if data is None else data)
    changed = with_layout(manifest, stage).model_copy(
        update={"changes": [*manifest.changes, *changes_since(manifest, stage)], "versions": software_versions()}
    )
    copies = {
        name: checkpoint.file(name) for name in (REFERENCE_NAME, REFERENCE_BEFORE_REPAIR_NAME) if name in manifest.files
    }
    copies |= _random_states(checkpoint, stage.training.parallel.world_size)
    state = OptimizerState(checkpoint)
    return write_checkpoint(target, changed, _CheckedState(checkpoint, state).read, state.settings, copies=copies)


def _resharded_stage(manifest: CheckpointManifest, tensor: int, pipeline: int, data: int) -> TrainStage:
    """Return the checkpoint's configuration with the new layout."""
    stage = saved_stage(manifest)
    before = stage.training.parallel
    layout = {"tensor": tensor, "pipeline": pipeline, "data": data}
    update = {**layout, "sequence_parallel": before.sequence_parallel and tensor > 1}
    training = stage.training.model_copy(update={"parallel": before.model_copy(update=update)})
    problems = [*layout_contradictions(stage.model, training), *section_contradictions(training)]
    if problems:
        raise InputError(
            "; ".join(found.message for found in problems),
            where=f"layout of {tensor} tensor x {pipeline} pipeline x {data} data ranks",
            expected="--tensor, --pipeline and --data that fit the network and the batch sizes of the checkpoint",
        )
    embedding_rows(manifest, manifest.vocabulary_size, stage.model, tensor)
    return stage.model_copy(update={"training": training})


def _random_states(checkpoint: Checkpoint, ranks: int) -> dict[str, Path]:
    """Return the file of rank 0's random number states under the name of each new rank.

    Raises:
        DriftError: the states of the ranks differ. They are always equal, because all ranks use the same seed.
    """
    manifest = checkpoint.manifest
    saved = range(manifest.tensor_parallel * manifest.pipeline_parallel * manifest.data_parallel)
    there = [name for name in map(random_file, saved) if name in manifest.files]
    if not there:
        # Older versions of Bloomery saved no generator states.
        return {}
    if different := [name for name in there if manifest.files[name].sha256 != manifest.files[there[0]].sha256]:
        raise DriftError(
            f"the random number states in {different[0]} differ from those in {there[0]}",
            where=str(checkpoint.folder),
            expected=f"equal random number states of all ranks; {how_to_repair(checkpoint.folder)}",
        )
    return dict.fromkeys(map(random_file, range(ranks)), checkpoint.file(there[0]))


class _CheckedState:
    """The fp32 state of a checkpoint, whose master weights are compared with the saved weights."""

    def __init__(self, checkpoint: Checkpoint, state: OptimizerState) -> None:
        self._checkpoint, self._state = checkpoint, state
        self._dtype: torch.dtype = getattr(torch, PRECISION_DTYPES[checkpoint.trained_with("precision")])
        self._equal: set[tuple[str, range | None]] = set()

    def read(self, parameter: Parameter, kind: str, wanted: range | None) -> torch.Tensor:
        """Return the state of a parameter (`bloomery.checkpoint.write_checkpoint.ReadState`).

        Raises:
            DriftError: the saved weights are not the rounded master weights. A training would refuse the checkpoint.
        """
        found = self._state.part(parameter, kind, wanted)
        if kind == MASTER and (parameter.name, wanted) not in self._equal:
            weight = self._checkpoint.weight(parameter, self._dtype, wanted)
            check_rounded(parameter, found, weight, self._checkpoint.folder)
            self._equal.add((parameter.name, wanted))
        return found
