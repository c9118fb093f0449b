"""The optimizer's state in a checkpoint: fp32 master weights, moments, steps, loss scale; one parameter at a time.

Only the files and the ranges of them are read that hold what is asked for: a rank of a new layout reads its own part
of BLOOM-176B's 2.1 TB of state, and no rank holds more than one shard beside what it keeps.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.checkpoint.files import open_state, optimizer_file
from bloomery.checkpoint.flat import FlatState
from bloomery.checkpoint.merge import assemble
from bloomery.spec.groups import held
from bloomery.spec.partition import stage_bounds

if TYPE_CHECKING:
    import torch

    from bloomery.checkpoint.weights import Checkpoint
    from bloomery.spec.placement import Parameter

MASTER = "master"
"""The fp32 weights, beside the names that the optimizer gives to its moments (Adam: exp_avg, exp_avg_sq)."""

_TIED = re.compile(r"tied_modules\.[^.]+\.(.+)")
_OWNED = re.compile(r"(\d+)\.(.+)")


class _Part:
    """What one file holds: for each group, its flat tensors by kind; the step; the loss scaler."""

    def __init__(self, path: str, state: dict[str, Any], sizes: list[int]) -> None:
        import torch

        try:
            optimizer = state["optimizer_state_dict"]
            base = optimizer["base_optimizer_state"]
            masters, groups = optimizer["single_partition_of_fp32_groups"], base["param_groups"]
            if not len(masters) == len(groups) == len(sizes):
                raise InputError(f"has {len(masters)} groups", where=path, expected=f"{len(sizes)}")
            self.slices = [
                {name: (each.start, each.numel) for name, each in group.items()}
                for group in optimizer["param_slice_mappings"]
            ]
            self.tensors: list[dict[str, torch.Tensor]] = []
            steps = []
            for number, (master, group) in enumerate(zip(masters, groups, strict=True)):
                moments = base["state"].get(group["params"][0], {})
                flat = {kind: value for kind, value in moments.items() if _is_flat(value)}
                self.tensors.append({MASTER: master, **flat})
                steps += [float(each) for each in (moments.get("step"), group.get("step")) if each is not None]
                for kind, value in self.tensors[number].items():
                    # ZeRO leaves the padding at the end of the master weights out.
                    if value.dtype != torch.float32 or value.numel() > sizes[number]:
                        raise CheckFailedError(
                            f"{kind} of group {number} has {value.numel()} elements of type {value.dtype}",
                            where=path,
                            expected=f"at most {sizes[number]} of float32",
                        )
            scaler = optimizer.get("loss_scaler")
        except (KeyError, IndexError, AttributeError, TypeError) as error:
            raise InputError(f"not a part of ZeRO's state ({error!r})", where=path) from error
        self.scaler: dict[str, Any] = dict(vars(scaler)) if scaler is not None else {}
        self.step = steps[0] if steps else None
        if any(step != self.step for step in steps):
            raise CheckFailedError(f"its groups have made {steps} steps", where=path, expected="one number")


def _is_flat(value: Any) -> bool:
    """A moment has an element for each of the group's; the step is one number."""
    import torch

    return isinstance(value, torch.Tensor) and value.dim() == 1


class OptimizerState:
    """Master weights, moments and step of a checkpoint, whole, whatever layout wrote them."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Find which stage held what.

        Raises:
            CheckFailedError: a file differs from the manifest.
            InputError: a file is not what DeepSpeed writes, or the manifest does not say how it was split.
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
        first = self._part(0, 0, 0)
        self.kinds: tuple[str, ...] = tuple(first.tensors[0])
        """`master` and the names of the moments."""
        self.step: float | None = first.step
        """Updates that the optimizer has made; None where it does not count them."""
        self.loss_scaler: dict[str, Any] = first.scaler
        """Attributes of DeepSpeed's loss scaler; empty where there is none."""

    def part(self, parameter: Parameter, kind: str, wanted: range | None = None) -> torch.Tensor:
        """fp32, contiguous: the parameter's `kind`; only the indices `wanted` of its split dimension where given.

        A tied parameter's comes from its owner, whose weights all copies take after each update; what a copy's own
        optimizer makes of the same gradients may be rounded otherwise.

        Raises:
            CheckFailedError: replicas over the tensor ranks differ in a bit; a file differs from the manifest, from the
                plan of the layout or from the other files.
            InputError: a file is not what DeepSpeed writes.
        """
        import torch

        stage = self._stage[parameter.name]
        return assemble(
            parameter,
            lambda rank: self._shard(parameter, kind, stage, rank),
            self._checkpoint.ranks,
            torch.float32,
            wanted=wanted,
            what=parameter.name if kind == MASTER else f"{kind} of {parameter.name}",
            where=self._where,
        )

    def _shard(self, parameter: Parameter, kind: str, stage: int, rank: int) -> torch.Tensor:
        import torch

        pieces = []
        for piece in self._flat[stage].pieces(parameter):
            flat = self._part(stage, rank, piece.replica).tensors[piece.group][kind]
            pieces.append(flat.narrow(0, piece.start, piece.count))
        whole = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return whole.view(parameter.shard_shape(self._checkpoint.ranks))

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
            there = {_declared_key(given): where for given, where in group.items()}
            here = {(None if own[n].tied_layers else own[n].layer, own[n].local_name): w for n, w in slices.items()}
            if there != here:
                different = next(key for key in [*here, *there] if there.get(key) != here.get(key))
                raise CheckFailedError(
                    f"group {number} has layer {different[0]}'s {different[1]} at {there.get(different)}",
                    where=str(path),
                    expected=f"{here.get(different)}, as (first element, elements) of this layout",
                )
            ends = max((start + count for start, count in slices.values()), default=0)
            for kind, tensor in part.tensors[number].items():
                if tensor.numel() < ends:
                    raise CheckFailedError(
                        f"{kind} of group {number} has {tensor.numel()} elements", where=str(path), expected=f"{ends}"
                    )
        first = next(iter(self._parts.values()), part)
        for kinds in part.tensors:
            if part.step != first.step or kinds.keys() != first.tensors[0].keys():
                raise CheckFailedError(
                    f"holds {', '.join(kinds)} after {part.step} steps",
                    where=str(path),
                    expected=f"{', '.join(first.tensors[0])} after {first.step} steps, as in the other files",
                )
        return part


def _declared_key(name: str) -> tuple[int | None, str]:
    """DeepSpeed's name of a parameter as (pipeline layer, its name there); no layer for a tied one."""
    if tied := _TIED.fullmatch(name):
        return None, tied[1]
    if owned := _OWNED.fullmatch(name):
        return int(owned[1]), owned[2]
    return -1, name
