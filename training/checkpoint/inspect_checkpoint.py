"""Describe a checkpoint from its manifest and the headers of its files: `bloomery checkpoint inspect`.

Weights are not read. Copies of a weight are compared by the CRC-32 in the files' directories. Of the fp32 state, only
the parameters that every tensor rank holds in full are read, which are norms and biases. For BLOOM-176B these are about
0.4 GB of 2.3 TB. The files' hashes are not compared with the manifest, because that reads every byte.
"""

from __future__ import annotations

import contextlib
import struct
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

from bloomery.base.errors import BloomeryError, InputError
from bloomery.checkpoint.files import optimizer_file, random_file
from bloomery.checkpoint.flat import FlatState
from bloomery.checkpoint.torch_archive import StoredTensor, TorchArchive
from bloomery.contracts.checkpoint import (
    DAMAGED_NAME,
    MANIFEST_NAME,
    REFERENCE_NAME,
    CheckpointManifest,
    layer_file,
    marked_problem,
    read_manifest,
)
from bloomery.contracts.resume_policy import saved_stage
from bloomery.spec.groups import engine_name, held, optimizer_groups
from bloomery.spec.parameters import declare
from bloomery.spec.partition import stage_bounds
from bloomery.spec.placement import Parameter
from training.checkpoint.inspection import Drift, Inspection, Optimizer, Tensor
from training.checkpoint.needed_files import check_needed_files

_THREADS = 16
"""Number of files that are read at the same time, because a network file system takes milliseconds to open a file."""


def inspect_checkpoint(folder: Path) -> Inspection:
    """Describe the checkpoint in `folder`. Damage of single files is described too, and raises no error.

    A file that a training removes during the inspection is described as missing.

    Raises:
        InputError: the manifest is missing or damaged, or its configuration cannot be read.
        TryAgainError: the disk or file server does not respond.
    """
    manifest = read_manifest(folder)
    return _Inspector(folder, manifest).inspect()


class _Inspector:
    """The inspection of one checkpoint."""

    def __init__(self, folder: Path, manifest: CheckpointManifest) -> None:
        self._folder, self._manifest = folder, manifest
        self._stage = saved_stage(manifest)
        training, rows = self._stage.training, manifest.vocabulary_rows
        self._bounds = manifest.stage_layers or stage_bounds(
            self._stage.model, rows, manifest.pipeline_parallel, training.partition
        )
        self._parameters = declare(self._stage.model, rows)
        self._ranks = manifest.tensor_parallel
        self._problems: list[str] = []
        self._drift: list[Drift] = []
        uneven = [each.name for each in self._parameters if not each.is_divisible(self._ranks)]
        bounds, stages = self._bounds, manifest.pipeline_parallel
        # Each rank has a file. A wrong layout must not make this class list billions of names.
        if (
            uneven
            or self._world_size() > len(manifest.files)
            or [len(bounds), bounds[0], bounds[-1]] != [stages + 1, 0, manifest.layers]
            or sorted(bounds) != bounds
        ):
            raise InputError(
                f"the layout in {MANIFEST_NAME} ({self._ranks} tensor x {stages} pipeline x {manifest.data_parallel} "
                f"data ranks) does not fit the network or the {len(manifest.files)} files",
                where=str(folder),
                expected="a manifest that the training wrote; use another checkpoint",
            )

    def inspect(self) -> Inspection:
        """Return the description."""
        manifest = self._manifest
        self._check_files()
        names = [name for name in manifest.files if name.startswith("layer_") or name.endswith("_optim_states.pt")]
        with ThreadPoolExecutor(_THREADS) as pool:
            self._archives = {name: each for name, each in zip(names, pool.map(self._open, names), strict=True) if each}
            self._check_weights()
            for found in pool.map(self._compare_state, range(len(self._bounds) - 1)):
                self._drift += found
        self._compare_random_states()
        optimizer = self._optimizer()
        return Inspection(
            checkpoint=str(self._folder),
            damaged=marked_problem(self._folder),
            iteration=manifest.iteration,
            consumed_samples=manifest.consumed_samples,
            consumed_tokens=manifest.consumed_tokens,
            precision=self._stage.training.precision,
            tensor_parallel=manifest.tensor_parallel,
            pipeline_parallel=manifest.pipeline_parallel,
            data_parallel=manifest.data_parallel,
            sequence_parallel=manifest.sequence_parallel,
            stage_layers=tuple(self._bounds),
            vocabulary_rows=manifest.vocabulary_rows,
            parameters=sum(each.count for each in self._parameters),
            files=len(manifest.files),
            bytes=sum(entry.bytes for entry in manifest.files.values()),
            optimizer=optimizer,
            reference_logits=REFERENCE_NAME in manifest.files,
            versions=manifest.versions,
            changes=tuple(manifest.changes),
            repairs=tuple(manifest.repairs),
            tensors=tuple(self._describe(each) for each in self._parameters),
            drift=tuple(self._drift),
            problems=tuple(sorted({*self._problems})),
        )

    def _check_files(self) -> None:
        """Compare the names and sizes of the files with the manifest."""
        try:
            check_needed_files(self._folder, self._manifest)
        except BloomeryError as error:
            self._problems.append(error.what)
        sizes = _sizes(self._folder)
        for name, entry in self._manifest.files.items():
            if (size := sizes.get(name)) is None:
                self._problems.append(_missing(name))
            elif size != entry.bytes:
                self._problems.append(f"{name} has {size} bytes; expected: {entry.bytes}")
        for name in sorted(sizes.keys() - self._manifest.files.keys() - {MANIFEST_NAME, DAMAGED_NAME}):
            self._problems.append(f"{MANIFEST_NAME} does not list {name}")

    def _open(self, name: str) -> TorchArchive | None:
        if not (self._folder / name).is_file():
            return None
        try:
            return TorchArchive(self._folder / name)
        except InputError as error:
            self._problems.append(f"{name}: {error.what}")
        except FileNotFoundError:
            # A training can remove an old checkpoint at any time.
            self._problems.append(_missing(name))
        return None

    def _weight(self, parameter: Parameter, layer: int, rank: int) -> StoredTensor | None:
        archive = self._archives.get(layer_file(layer, rank))
        found = archive.state.get(parameter.local_name) if archive and isinstance(archive.state, dict) else None
        return found if isinstance(found, StoredTensor) else None

    def _check_weights(self) -> None:
        """Check the names and shapes of all weights, and compare the copies of a weight."""
        for parameter in self._parameters:
            shape = parameter.shard_shape(self._ranks)
            layers = [parameter.layer, *parameter.tied_layers]
            there = [layer for layer in layers if layer_file(layer, 0) in self._manifest.files]
            if parameter.layer not in there:
                self._problems.append(f"{MANIFEST_NAME} does not list {layer_file(parameter.layer, 0)}")
            split = parameter.placement.dimension is not None
            for ranks in [[rank] for rank in range(self._ranks)] if split else [list(range(self._ranks))]:
                copies = []
                for name, tensor in (
                    (layer_file(layer, rank), self._weight(parameter, layer, rank)) for layer in there for rank in ranks
                ):
                    if name not in self._archives:
                        continue
                    if tensor is None or tensor.shape != shape:
                        found = "no tensor" if tensor is None else f"shape {list(tensor.shape)}"
                        self._problems.append(
                            f"{name} has {found} for {parameter.local_name}; expected: shape {list(shape)}"
                        )
                    else:
                        copies.append((name, (tensor.dtype, self._archives[name].checksum(tensor))))
                different = tuple(name for name, value in copies if value != copies[0][1])
                if different:
                    self._drift.append(Drift(f"weights of {parameter.name}", different))

    def _compare_state(self, stage: int) -> list[Drift]:
        """Compare the copies of the fp32 state of one pipeline stage's parameters that are not split."""
        first, end = list(pairwise(self._bounds))[stage]
        own = held(self._parameters, first, end)
        flat = FlatState(own, self._ranks, self._manifest.data_parallel)
        copied = {each.name for each in own if each.placement.dimension is None} if self._ranks > 1 else set()
        found: dict[str, set[str]] = {}
        for replica in range(self._manifest.data_parallel):
            before: dict[str, bytes] | None = None
            for rank in range(self._ranks):
                name = self._optimizer_file(replica, stage, rank)
                if name not in self._archives:
                    continue
                try:
                    state = _state_of(self._archives[name], flat, own, replica, copied)
                except InputError as error:
                    self._problems.append(f"{name}: {error.what}")
                    continue
                except FileNotFoundError:
                    self._problems.append(_missing(name))
                    continue
                before = state if before is None else before
                for what, data in state.items():
                    if data != before.get(what):
                        found.setdefault(what, set()).add(name)
        return [Drift(what, tuple(sorted(names))) for what, names in found.items()]

    def _optimizer_file(self, replica: int, stage: int, rank: int) -> str:
        return optimizer_file(replica, stage, rank, self._ranks, bf16=self._stage.training.precision == "bf16")

    def _compare_random_states(self) -> None:
        hashes = {
            name: self._manifest.files[name].sha256
            for name in map(random_file, range(self._world_size()))
            if name in self._manifest.files
        }
        if different := tuple(name for name, sha256 in hashes.items() if sha256 != next(iter(hashes.values()))):
            self._drift.append(Drift("random number states", different))

    def _world_size(self) -> int:
        manifest = self._manifest
        return manifest.tensor_parallel * manifest.pipeline_parallel * manifest.data_parallel

    def _optimizer(self) -> Optimizer | None:
        """Describe the optimizer state, as the first file that can be read states it."""
        for name, archive in self._archives.items():
            groups = _groups(archive.state) if name.endswith("_optim_states.pt") else None
            if groups:
                moments = tuple(kind for kind in groups[0] if kind != "master")
                scaler = archive.state["optimizer_state_dict"].get("loss_scaler")
                fp16 = self._stage.training.precision == "fp16"
                scale = getattr(scaler, "cur_scale", None) if fp16 else None
                try:
                    return Optimizer(moments, _steps(archive), None if scale is None else float(scale))
                except InputError as error:
                    self._problems.append(f"{name}: {error.what}")
                except FileNotFoundError:
                    self._problems.append(_missing(name))
        return None

    def _describe(self, parameter: Parameter) -> Tensor:
        found = (self._weight(parameter, parameter.layer, rank) for rank in range(self._ranks))
        return Tensor(
            name=parameter.name,
            shape=parameter.shape,
            dtype=next((each.dtype for each in found if each is not None), None),
            split=parameter.placement.value,
            layer=parameter.layer,
            tied_layers=parameter.tied_layers,
        )


def _sizes(folder: Path) -> dict[str, int]:
    """Return the sizes in bytes of the files in a folder by name. Files that are removed meanwhile are left out."""
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found[path.name] = path.stat().st_size
    return found


def _missing(name: str) -> str:
    return f"{name} is missing"


def _state_of(
    archive: TorchArchive, flat: FlatState, own: list[Parameter], replica: int, wanted: set[str]
) -> dict[str, bytes]:
    """Return the bytes of the fp32 state of the parameters named `wanted` in a replica's file, by kind and name.

    Raises:
        InputError: the file is damaged, or it does not hold the state of this replica.
    """
    groups = _groups(archive.state)
    if groups is None or not _fits(archive.state, groups, flat, own, replica):
        raise InputError("the file does not hold the optimizer state of its rank", where=str(archive.path))
    places = [
        (f"{kind} of {parameter}", tensor, position)
        for number, slices in enumerate(flat.slices(replica))
        for parameter, position in slices.items()
        if parameter in wanted
        for kind, tensor in groups[number].items()
    ]
    content = archive.read([(tensor, *position) for _, tensor, position in places])
    return {what: data for (what, _, _), data in zip(places, content, strict=True)}


def _groups(state: Any) -> list[dict[str, StoredTensor]] | None:
    """Return the flat tensors of each parameter group by kind. None if the state is not that of an optimizer."""
    try:
        optimizer = state["optimizer_state_dict"]
        base = optimizer["base_optimizer_state"]
        return [
            {"master": master}
            | {
                kind: value
                for kind, value in base["state"].get(group["params"][0], {}).items()
                if isinstance(value, StoredTensor) and len(value.shape) == 1
            }
            for master, group in zip(optimizer["single_partition_of_fp32_groups"], base["param_groups"], strict=True)
        ]
    except (KeyError, IndexError, AttributeError, TypeError, ValueError):
        return None


def _fits(
    state: Any, groups: list[dict[str, StoredTensor]], flat: FlatState, own: list[Parameter], replica: int
) -> bool:
    """Return whether the positions of parameters in a file are those of the layout and its tensors are long enough."""
    names = {each.name: engine_name(each) for each in own}
    expected = [{names[name]: place for name, place in slices.items()} for slices in flat.slices(replica)]
    try:
        found = [
            {name: (each.start, each.numel) for name, each in group.items()}
            for group in state["optimizer_state_dict"]["param_slice_mappings"]
        ]
    except (KeyError, AttributeError, TypeError):
        return False
    ends = [max((start + count for start, count in slices.values()), default=0) for slices in expected]
    return (
        found == expected
        and len(groups) == len(optimizer_groups(own))
        and all(
            isinstance(tensor, StoredTensor) and tensor.dtype == "float32" and tensor.count >= end
            for group, end in zip(groups, ends, strict=True)
            for tensor in group.values()
        )
    )


def _steps(archive: TorchArchive) -> float | None:
    """Return the number of updates in an optimizer's file. torch counts them in a tensor, and apex in a number."""
    base = archive.state["optimizer_state_dict"]["base_optimizer_state"]
    for group in base["param_groups"]:
        for step in (base["state"].get(group["params"][0], {}).get("step"), group.get("step")):
            if isinstance(step, StoredTensor) and (step.dtype, step.shape) == ("float32", ()):
                return float(struct.unpack("<f", next(archive.read([(step, 0, 1)])))[0])
            if isinstance(step, int | float):
                return float(step)
    return None
