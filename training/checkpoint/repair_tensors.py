"""Make the copies of each tensor in a checkpoint's files equal. One process does this, without building a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch

from bloomery.base.atomic import atomic_path
from bloomery.base.errors import CheckFailedError
from bloomery.base.progress import track
from bloomery.checkpoint.files import open_state, optimizer_file
from bloomery.checkpoint.flat import FlatState, StatePiece
from bloomery.checkpoint.merge import bits_equal, greatest_difference
from bloomery.checkpoint.optimizer_state import MASTER, OptimizerState
from bloomery.checkpoint.weights import Checkpoint
from bloomery.contracts.checkpoint import layer_file
from bloomery.spec.groups import held
from bloomery.spec.partition import stage_bounds
from bloomery.spec.placement import Parameter
from bloomery.spec.weight_files import PRECISION_DTYPES

Method = Literal["mean-fp32", "rank0"]
_CHUNK = 1 << 24
"""Number of elements that are checked at a time."""


def open_to_save(path: Path) -> dict[str, Any]:
    """Open a checkpoint's file. Objects of DeepSpeed's classes in it keep their classes when the file is saved again.

    Raises:
        InputError: the file is not a state dict of tensors, plain data and these classes.
    """
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler, LossScaler
    from deepspeed.utils.tensor_fragment import fragment_address

    return open_state(path, [fragment_address, LossScaler, DynamicLossScaler])


class _States:
    """State dicts of a folder's files. Tensors are mapped privately, so changes appear only in files that are saved."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._open: dict[str, dict[str, Any]] = {}
        self._changed: set[str] = set()

    def open(self, name: str) -> dict[str, Any]:
        """Return the content of a file."""
        if name not in self._open:
            self._open[name] = open_to_save(self._checkpoint.file(name))
        return self._open[name]

    def changed(self, name: str) -> None:
        """Note that tensors of this file were changed."""
        self._changed.add(name)

    def save(self) -> list[str]:
        """Replace the changed files atomically, close all files, and return the names of the changed ones."""
        for name in sorted(self._changed):
            # The file may be a hard link to a file of another folder. The rename replaces this folder's link only.
            with atomic_path(self._checkpoint.folder / name) as temporary:
                torch.save(self._open[name], temporary)
        changed = sorted(self._changed)
        self._open, self._changed = {}, set()
        return changed


def repair_tensors(folder: Path, method: Method) -> tuple[dict[str, float], list[str]]:
    """Make all copies of weights, master weights and moments in the checkpoint `folder` equal.

    Differing copies of the fp32 state are replaced by their mean or by the first copy. Weights are then computed from
    the master weights. Changed files are replaced, but the manifest stays unchanged. The caller must have compared all
    files with the manifest.

    Returns:
        The greatest difference between copies of each changed tensor, by name, and the names of the changed files.

    Raises:
        CheckFailedError: a tensor is not finite after the repair.
        InputError: a file is not a state dict as the training saved it.
    """
    checkpoint = Checkpoint(folder, verified=True)
    manifest = checkpoint.manifest
    precision = checkpoint.trained_with("precision")
    bounds = manifest.stage_layers or stage_bounds(
        checkpoint.model, manifest.vocabulary_rows, manifest.pipeline_parallel, checkpoint.trained_with("partition")
    )
    found: dict[str, float] = {}
    changed: list[str] = []
    stages = list(pairwise(bounds))
    for stage, (first, end) in track(enumerate(stages), "repair", len(stages), "stages"):
        states = _States(checkpoint)
        repair = _StageRepair(checkpoint, states, stage, held(checkpoint.parameters, first, end), precision == "bf16")
        for parameter in repair.parameters:
            repair.make_state_equal(parameter, method, found)
            if first <= parameter.layer < end:
                repair.derive_weights(parameter, getattr(torch, PRECISION_DTYPES[precision]), found)
        repair.check_finite(range(first, end))
        changed += states.save()
    return found, sorted(set(changed))


class _StageRepair:
    """The repair of the parameters that one pipeline stage holds."""

    def __init__(
        self, checkpoint: Checkpoint, states: _States, stage: int, parameters: list[Parameter], bf16: bool
    ) -> None:
        self.parameters = parameters
        self._checkpoint, self._states, self._stage, self._bf16 = checkpoint, states, stage, bf16
        self._flat = FlatState(parameters, checkpoint.ranks, checkpoint.manifest.data_parallel)

    def make_state_equal(self, parameter: Parameter, method: Method, found: dict[str, float]) -> None:
        """Make the fp32 state of a parameter that is not split equal on all tensor ranks."""
        if parameter.placement.dimension is not None:
            return
        for piece in self._flat.pieces(parameter):
            by_rank = [self._tensors(rank, piece) for rank in range(self._checkpoint.ranks)]
            for kind in by_rank[0]:
                copies = [tensors[kind] for tensors in by_rank]
                if all(bits_equal(copies[0], each) for each in copies[1:]):
                    continue
                _note(found, f"{kind} of {parameter.name}", copies)
                value = copies[0].clone() if method == "rank0" else torch.stack(copies).double().mean(0).float()
                for rank, copy in enumerate(copies):
                    if not bits_equal(copy, value):
                        copy.copy_(value)
                        self._states.changed(self._file(rank, piece.replica))

    def derive_weights(self, parameter: Parameter, dtype: torch.dtype, found: dict[str, float]) -> None:
        """Replace weights, and their tied copies, that differ from the rounded master weights."""
        for rank in range(self._checkpoint.ranks):
            pieces = [self._tensors(rank, piece)[MASTER] for piece in self._flat.pieces(parameter)]
            master = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
            weight = master.to(dtype).view(parameter.shard_shape(self._checkpoint.ranks))
            for layer in (parameter.layer, *parameter.tied_layers):
                if layer != parameter.layer and not self._checkpoint.has_layer(layer):
                    continue
                name = layer_file(layer, rank)
                saved = self._states.open(name)[parameter.local_name]
                if not bits_equal(saved, weight):
                    _note(found, f"weights of {parameter.name}", [saved, weight])
                    saved.copy_(weight)
                    self._states.changed(name)

    def check_finite(self, layers: Iterable[int]) -> None:
        """Check all fp32 state of the stage and all weights of `layers`.

        Raises:
            CheckFailedError: a value is not finite.
        """
        manifest = self._checkpoint.manifest
        for rank in range(self._checkpoint.ranks):
            for layer in layers:
                if self._checkpoint.has_layer(layer):
                    name = layer_file(layer, rank)
                    for key, tensor in self._states.open(name).items():
                        self._check(tensor, key, name)
            for replica in range(manifest.data_parallel):
                name = self._file(rank, replica)
                for number in range(len(self._flat.part_sizes)):
                    for kind, tensor in self._group(name, number).items():
                        self._check(tensor, f"{kind} of parameter group {number}", name)

    def _check(self, tensor: torch.Tensor, what: str, name: str) -> None:
        flat = tensor.reshape(-1)
        if all(bool(flat[first : first + _CHUNK].isfinite().all()) for first in range(0, flat.numel(), _CHUNK)):
            return
        raise CheckFailedError(
            f"{what} is not finite after the repair",
            where=str(self._checkpoint.folder / name),
            expected="finite values; try the other value of --on-drift, or repair an earlier checkpoint "
            "(--checkpoint); the checkpoint in train/checkpoints is unchanged",
        )

    def _file(self, rank: int, replica: int) -> str:
        return optimizer_file(replica, self._stage, rank, self._checkpoint.ranks, bf16=self._bf16)

    def _group(self, name: str, number: int) -> dict[str, torch.Tensor]:
        """Return the flat tensors of a parameter group by kind."""
        optimizer = self._states.open(name)["optimizer_state_dict"]
        base = optimizer["base_optimizer_state"]
        moments = base["state"].get(base["param_groups"][number]["params"][0], {})
        flat = {kind: value for kind, value in moments.items() if isinstance(value, torch.Tensor) and value.dim() == 1}
        return {MASTER: optimizer["single_partition_of_fp32_groups"][number], **flat}

    def _tensors(self, rank: int, piece: StatePiece) -> dict[str, torch.Tensor]:
        """Return views of a parameter's elements on one tensor rank, by kind."""
        group = self._group(self._file(rank, piece.replica), piece.group)
        return {kind: flat.narrow(0, piece.start, piece.count) for kind, flat in group.items()}


def _note(found: dict[str, float], name: str, copies: Sequence[torch.Tensor]) -> None:
    """Record the greatest difference between the first copy and another copy."""
    greatest = max(greatest_difference(copies[0], each) for each in copies[1:])
    before = found.get(name, 0.0)
    found[name] = math.nan if math.isnan(greatest) or math.isnan(before) else max(before, greatest)


def verify_repaired(folder: Path) -> None:
    """Read all weights and all fp32 state of a repaired checkpoint with the checks of a load by the training.

    Raises:
        CheckFailedError: copies still differ. For example, a repair does not change step counts that differ.
    """
    checkpoint = Checkpoint(folder, verified=True)
    state = OptimizerState(checkpoint)
    saved = getattr(torch, PRECISION_DTYPES[checkpoint.trained_with("precision")])
    for parameter in track(checkpoint.parameters, "verify", len(checkpoint.parameters), "parameters"):
        weight = checkpoint.weight(parameter, saved)
        for kind in state.kinds:
            value = state.part(parameter, kind)
            assert kind != MASTER or bits_equal(value.to(saved), weight), parameter.name
