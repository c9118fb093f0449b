"""Read the optimizer's state from a checkpoint, one parameter at a time.

The state consists of fp32 master weights, moments, steps and the loss scale. Only the necessary files, and the
necessary ranges of them, are read. A rank of a new layout thus reads only its own part of BLOOM-176B's 2.1 TB of state.
In addition to its own part, a rank holds at most one shard in memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.checkpoint.files import OTHER_CHECKPOINT, open_state, optimizer_file
from bloomery.checkpoint.flat import FlatState
from bloomery.checkpoint.merge import assemble, narrowed
from bloomery.spec.groups import held, optimizer_groups
from bloomery.spec.partition import stage_bounds

if TYPE_CHECKING:
    import torch

    from bloomery.checkpoint.weights import Checkpoint
    from bloomery.spec.placement import Parameter

MASTER = "master"
"""Name of the fp32 weights. The optimizer names its moments itself (Adam: exp_avg, exp_avg_sq)."""

_TIED = re.compile(r"tied_modules\.[^.]+\.(.+)")
_OWNED = re.compile(r"(\d+)\.(.+)")

_LAYOUT_KEYS = frozenset(
    {
        "base_optimizer_state",
        "group_paddings",
        "param_alignment_paddings",
        "param_slice_mappings",
        "partition_count",
        "single_partition_of_fp32_groups",
    }
)
"""Entries of ZeRO's state that depend on the layout."""


@dataclass(frozen=True)
class GroupSettings:
    """Entries of a parameter group in the base optimizer's state that do not depend on the layout."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the group, such as `lr` and `weight_decay`, without its parameters."""
    counters: Mapping[str, Any] = field(default_factory=dict)
    """State that is not divided among the replicas. For torch's Adam, this is the step count."""


@dataclass(frozen=True)
class OptimizerSettings:
    """Everything in the optimizer's files that does not depend on the layout."""

    moments: tuple[str, ...] = ()
    """Names of the moments (Adam: exp_avg, exp_avg_sq). It is empty before the first update."""
    groups: Mapping[bool, GroupSettings] = field(default_factory=dict)
    """Settings of the group with weight decay (True) and of the group without (False)."""
    wrapper: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of ZeRO's state. In fp16 these include the attributes of the loss scaler (`loss_scaler`)."""


class _Part:
    """Content of one file: each group's flat tensors by kind, the step and the loss scaler."""

    def __init__(self, path: str, state: dict[str, Any], sizes: list[int]) -> None:
        import torch

        try:
            optimizer = state["optimizer_state_dict"]
            base = optimizer["base_optimizer_state"]
            masters, groups = optimizer["single_partition_of_fp32_groups"], base["param_groups"]
            if not len(masters) == len(groups) == len(sizes):
                raise InputError(
                    f"the file has {len(masters)} parameter groups",
                    where=path,
                    expected=f"{len(sizes)} parameter groups, as the model requires; {OTHER_CHECKPOINT}",
                )
            self.slices = [
                {name: (each.start, each.numel) for name, each in group.items()}
                for group in optimizer["param_slice_mappings"]
            ]
            self.tensors: list[dict[str, torch.Tensor]] = []
            self.settings: list[GroupSettings] = []
            steps = []
            for number, (master, group) in enumerate(zip(masters, groups, strict=True)):
                moments = base["state"].get(group["params"][0], {})
                flat = {kind: value for kind, value in moments.items() if _is_flat(value)}
                self.tensors.append({MASTER: master, **flat})
                options = {key: value for key, value in group.items() if key != "params"}
                self.settings.append(GroupSettings(options, {k: v for k, v in moments.items() if k not in flat}))
                steps += [float(each) for each in (moments.get("step"), group.get("step")) if each is not None]
                for kind, value in self.tensors[number].items():
                    # ZeRO omits the padding at the end of the master weights.
                    if value.dtype != torch.float32 or value.numel() > sizes[number]:
                        raise CheckFailedError(
                            f"tensor {kind!r} of parameter group {number} has {value.numel()} elements of type "
                            f"{value.dtype}",
                            where=path,
                            expected=f"at most {sizes[number]} elements of type torch.float32; {OTHER_CHECKPOINT}",
                        )
            scaler = optimizer.get("loss_scaler")
            self.wrapper = {key: value for key, value in optimizer.items() if key not in _LAYOUT_KEYS}
        except (KeyError, IndexError, AttributeError, TypeError) as error:
            raise InputError(
                "the file does not hold ZeRO's optimizer state: an entry is missing or has the wrong type",
                where=path,
                expected=f"the file as DeepSpeed saved it, with ZeRO stage 1; {OTHER_CHECKPOINT}",
            ) from error
        self.scaler: dict[str, Any] = dict(vars(scaler)) if scaler is not None else {}
        if scaler is not None:
            self.wrapper["loss_scaler"] = self.scaler
        self.step = steps[0] if steps else None
        if any(step != self.step for step in steps):
            raise CheckFailedError(
                f"the file states different numbers of optimizer steps: {', '.join(f'{step:g}' for step in steps)}",
                where=path,
                expected=f"the same number of steps for all parameter groups; {OTHER_CHECKPOINT}",
            )


def _is_flat(value: Any) -> bool:
    """Return whether `value` is a moment. A moment is one-dimensional, but the step is a single number."""
    import torch

    return isinstance(value, torch.Tensor) and value.dim() == 1


class OptimizerState:
    """Master weights, moments and step of a whole checkpoint, written by any layout."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Determine which stage holds each parameter.

        Raises:
            CheckFailedError: a file differs from the manifest.
            InputError: a file was not written by DeepSpeed, or the manifest does not state the layout.
        """
        manifest = checkpoint.manifest
        self._checkpoint = checkpoint
        self._where = str(checkpoint.folder)
        self._bf16 = checkpoint.trained_with("precision") == "bf16"
        self._bounds = manifest.stage_layers or stage_bounds(
            checkpoint.model,
            manifest.vocabulary_rows,
            manifest.pipeline_parallel,
            checkpoint.trained_with("partition"),
        )
        self._held = [held(checkpoint.parameters, first, end) for first, end in pairwise(self._bounds)]
        self._stage = {
            parameter.name: stage for stage, each in reversed([*enumerate(self._held)]) for parameter in each
        }
        self._flat = [FlatState(each, checkpoint.ranks, manifest.data_parallel) for each in self._held]
        self._parts: dict[tuple[int, int, int], _Part] = {}
        self._first: tuple[float | None, tuple[str, ...]] | None = None
        """Step and kinds of state in the file that was read first. All files must agree."""
        first = self._part(0, 0, 0)
        self.kinds: tuple[str, ...] = tuple(first.tensors[0])
        """Kinds of state in the files: `master` and the names of the moments."""
        self.step: float | None = first.step
        """Number of updates that the optimizer has made; None if the optimizer does not count updates."""
        self.loss_scaler: dict[str, Any] = first.scaler
        """Attributes of DeepSpeed's loss scaler; empty if the checkpoint has no loss scaler."""
        groups = optimizer_groups(self._held[0])
        self.settings = OptimizerSettings(
            moments=tuple(kind for kind in self.kinds if kind != MASTER),
            groups={members[0].decays: each for members, each in zip(groups, first.settings, strict=True)},
            wrapper=first.wrapper,
        )
        """Entries of the files that do not depend on the layout."""

    def close(self) -> None:
        """Unmap all files. The next read maps the files that it needs again.

        No other thread may read at the same time.
        """
        self._parts.clear()

    def part(
        self, parameter: Parameter, kind: str, wanted: range | None = None, *, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the parameter's state of kind `kind` in fp32 and contiguous, or only the indices `wanted` of its split
        dimension. `out` is memory for the result (see `assemble`).

        For a tied parameter the owner's state is returned, because all copies take the owner's weights after each
        update. The state of a copy's own optimizer may be rounded differently.

        Raises:
            CheckFailedError: replicas on the tensor ranks are not bit-equal, or a file differs from the manifest, from
                the layout or from the other files.
            InputError: a file was not written by DeepSpeed.
        """
        import torch

        stage = self._stage[parameter.name]
        return assemble(
            parameter,
            lambda rank, indices: self._shard(parameter, kind, stage, rank, indices),
            self._checkpoint.ranks,
            torch.float32,
            wanted=wanted,
            out=out,
            what=parameter.name if kind == MASTER else f"{kind} of {parameter.name}",
            where=self._where,
        )

    def _shard(self, parameter: Parameter, kind: str, stage: int, rank: int, indices: range | None) -> torch.Tensor:
        """Return a rank's shard, or only these indices of its split dimension. If the split dimension is the first one,
        only the elements of these rows are read."""
        import torch

        shape = parameter.shard_shape(self._checkpoint.ranks)
        first, end = 0, math.prod(shape)
        if parameter.placement.dimension == 0 and indices is not None:
            row = math.prod(shape[1:])
            first, end, shape = indices.start * row, indices.stop * row, (len(indices), *shape[1:])
            indices = None
        pieces = []
        for piece in self._flat[stage].pieces(parameter):
            low, high = max(first, piece.first), min(end, piece.first + piece.count)
            if low < high:
                flat = self._part(stage, rank, piece.replica).tensors[piece.group][kind]
                pieces.append(flat.narrow(0, piece.start + low - piece.first, high - low))
        found = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return narrowed(parameter, found.view(shape), indices)

    def _part(self, stage: int, rank: int, replica: int) -> _Part:
        key = stage, rank, replica
        if key not in self._parts:
            self._parts[key] = self._read(*key)
        return self._parts[key]

    def _read(self, stage: int, rank: int, replica: int) -> _Part:
        name = optimizer_file(replica, stage, rank, self._checkpoint.ranks, bf16=self._bf16)
        path, flat = self._checkpoint.file(name), self._flat[stage]
        part = _Part(str(path), open_state(path), flat.part_sizes)
        expected = flat.slices(replica)
        own = {parameter.name: parameter for parameter in self._held[stage]}
        for number, (group, slices) in enumerate(zip(part.slices, expected, strict=True)):
            there = {declared_key(given): where for given, where in group.items()}
            here = {(None if own[n].tied_layers else own[n].layer, own[n].local_name): w for n, w in slices.items()}
            if there != here:
                different = next(key for key in [*here, *there] if there.get(key) != here.get(key))
                raise CheckFailedError(
                    f"parameter group {number}: {_described(different)} is {_place(there.get(different))}",
                    where=str(path),
                    expected=f"{_place(here.get(different))}, as the layout in manifest.json requires; "
                    f"{OTHER_CHECKPOINT}",
                )
            ends = max((start + count for start, count in slices.values()), default=0)
            for kind, tensor in part.tensors[number].items():
                if tensor.numel() < ends:
                    raise CheckFailedError(
                        f"tensor {kind!r} of parameter group {number} has {tensor.numel()} elements",
                        where=str(path),
                        expected=f"at least {ends} elements, as the layout in manifest.json requires; "
                        f"{OTHER_CHECKPOINT}",
                    )
        if self._first is None:
            self._first = part.step, tuple(part.tensors[0])
        step, kinds = self._first
        for tensors in part.tensors:
            if part.step != step or tensors.keys() != set(kinds):
                raise CheckFailedError(
                    f"the file holds the tensors {', '.join(tensors)} after {_steps(part.step)}",
                    where=str(path),
                    expected=f"the tensors {', '.join(kinds)} after {_steps(step)}, as in the other files of the "
                    f"optimizer; {OTHER_CHECKPOINT}",
                )
        return part


def declared_key(name: str) -> tuple[int | None, str]:
    """Return DeepSpeed's name of a parameter as (pipeline layer, name in the layer). The layer is None for a tied
    parameter, and -1 for a name of unknown form."""
    if tied := _TIED.fullmatch(name):
        return None, tied[1]
    if owned := _OWNED.fullmatch(name):
        return int(owned[1]), owned[2]
    return -1, name


def _described(key: tuple[int | None, str]) -> str:
    """Describe a parameter in an error. `key` is a result of `declared_key`."""
    layer, name = key
    if layer is None:
        return f"the tied parameter {name!r}"
    return f"parameter {name!r} of pipeline layer {layer}" if layer >= 0 else f"the unknown parameter {name!r}"


def _place(elements: tuple[int, int] | None) -> str:
    """Describe a position (first element, number of elements) in an error. None means that there is no position."""
    return "absent" if elements is None else f"at elements {elements[0]} to {sum(elements) - 1}"


def _steps(count: float | None) -> str:
    """Describe the number of optimizer steps in an error. None means that the optimizer does not count its steps."""
    return "an unknown number of steps" if count is None else f"{count:g} steps"
