"""Write a complete checkpoint of any layout in one process, from any source of named tensors.

Neither `torch.distributed` nor a DeepSpeed engine is needed. `bloomery checkpoint reshard` reads the tensors from
another checkpoint. An import reads them from a model of another program.

Memory holds one layer of one tensor rank, or one replica's part of the optimizer state, and one parameter's shard. Each
file is hashed while it is written. For BLOOM-176B with its optimizer state, 2.3 TB are read and written.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from bloomery.base.atomic import explained
from bloomery.base.errors import CheckFailedError, InputError, NoSpaceError
from bloomery.base.folders import atomic_folder
from bloomery.base.progress import Progress
from bloomery.base.units import format_bytes
from bloomery.checkpoint.engine_states import engine_state, optimizer_state
from bloomery.checkpoint.files import engine_file, optimizer_file
from bloomery.checkpoint.finite import is_finite
from bloomery.checkpoint.flat import FlatState
from bloomery.checkpoint.merge import part_of
from bloomery.checkpoint.optimizer_state import MASTER, OptimizerSettings
from bloomery.checkpoint.save_state import save_state
from bloomery.checkpoint.write_hashed import write_hashed
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, layer_file, write_manifest
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.resume_policy import saved_stage
from bloomery.contracts.sample_prefix import SamplePrefix
from bloomery.spec.checkpoint_size import checkpoint_size
from bloomery.spec.groups import held
from bloomery.spec.parameters import declare, layer_count
from bloomery.spec.partition import stage_bounds
from bloomery.spec.placement import Parameter
from bloomery.spec.weight_files import PRECISION_DTYPES

ReadState = Callable[[Parameter, str, range | None], torch.Tensor]
"""Function (parameter, kind, wanted) that returns a parameter's fp32 state, contiguous.

`kind` is `master` for the weights in fp32, or the name of a moment. `wanted` are the wanted indices of the parameter's
split dimension; None stands for the whole parameter. `OptimizerState.part` is such a function.
"""


def first_manifest(
    stage: TrainStage,
    *,
    identity: str,
    prefix: SamplePrefix,
    vocabulary_size: int,
    vocabulary_rows: int,
    versions: Mapping[str, str],
) -> CheckpointManifest:
    """Return the manifest, without files, of a checkpoint before the first iteration of the training `stage`.

    Args:
        stage: the training's configuration, with the layout of the checkpoint.
        identity: identity of the training.
        prefix: what the training has read, which is nothing.
        vocabulary_size: entries of the tokenizer.
        vocabulary_rows: rows of the embedding.
        versions: the `software_versions`.
    """
    empty = CheckpointManifest(
        identity=identity,
        prefix=prefix,
        config={},
        iteration=0,
        consumed_samples=0,
        consumed_tokens=0,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        vocabulary_size=vocabulary_size,
        vocabulary_rows=vocabulary_rows,
        layers=layer_count(stage.model),
        versions=dict(versions),
        files={},
    )
    return with_layout(empty, stage)


def with_layout(manifest: CheckpointManifest, stage: TrainStage) -> CheckpointManifest:
    """Return a copy of the manifest without files, with the configuration `stage` and its layout."""
    parallel = stage.training.parallel
    rows = manifest.vocabulary_rows
    return manifest.model_copy(
        update={
            "config": stage.model_dump(mode="json"),
            "tensor_parallel": parallel.tensor,
            "pipeline_parallel": parallel.pipeline,
            "data_parallel": parallel.data,
            "sequence_parallel": parallel.sequence_parallel,
            "stage_layers": stage_bounds(stage.model, rows, parallel.pipeline, stage.training.partition),
            "files": {},
        }
    )


def write_checkpoint(
    target: Path,
    manifest: CheckpointManifest,
    read: ReadState,
    settings: OptimizerSettings | None = None,
    *,
    copies: Mapping[str, Path] = MappingProxyType({}),
) -> CheckpointManifest:
    """Write the sealed checkpoint folder `target`, which appears complete or not at all. Return its manifest.

    The folder holds the weights of each layer and tensor rank, the optimizer state of each rank, and DeepSpeed's engine
    states. A training loads the checkpoint on every layout if its name is that of its iteration
    (`bloomery.contracts.checkpoint.step_name`) and `copies` has the reference logits.

    Args:
        target: the new folder. It must not exist.
        manifest: manifest without files, from `first_manifest` or `with_layout`.
        read: function that returns the fp32 weights and moments of a parameter. The saved weights are the fp32 weights,
            rounded to the precision of the training.
        settings: moments, options and counters of the optimizer. None for a checkpoint before the first update, which
            has no moments.
        copies: further files of the checkpoint, by their names in it. A training needs
            `bloomery.contracts.checkpoint.REFERENCE_NAME`.

    Raises:
        InputError: `target` exists, or a parameter cannot be divided among the tensor ranks.
        CheckFailedError: a value is not finite.
        NoSpaceError: the disk has too little space. The error is raised before any file is written.
        ResourceError: the disk is not writable.
        TryAgainError: another process is writing `target`.
    """
    if target.exists():
        raise InputError("this path exists already", where=str(target), expected="the path of a new folder")
    writer = _Writer(manifest, read, settings or OptimizerSettings())
    with explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        free, needed = shutil.disk_usage(target.parent).free, writer.needed_bytes()
    if free < needed:
        raise NoSpaceError(
            f"the disk is full: the checkpoint needs {format_bytes(needed)}, but only {format_bytes(free)} are free",
            where=str(target.parent),
            expected="more free space, or a folder on another disk",
        )
    with atomic_folder(target) as folder:
        files = writer.write(folder)
        for name, path in copies.items():
            shutil.copyfile(path, folder / name)
            files[name] = FileEntry.of(folder / name)
        complete = manifest.model_copy(update={"files": dict(sorted(files.items()))})
        write_manifest(folder, complete)
    return complete


class _Writer:
    """Writes the files of one checkpoint."""

    def __init__(self, manifest: CheckpointManifest, read: ReadState, settings: OptimizerSettings) -> None:
        self._manifest, self._read, self._settings = manifest, read, settings
        self._stage = saved_stage(manifest)
        self._parameters = declare(self._stage.model, manifest.vocabulary_rows)
        self._tensor = manifest.tensor_parallel
        assert manifest.stage_layers is not None
        self._stages = list(pairwise(manifest.stage_layers))
        uneven = [each for each in self._parameters if not each.is_divisible(self._tensor)]
        if uneven:
            raise InputError(
                f"the parameter {uneven[0].name} of shape {list(uneven[0].shape)} cannot be divided among "
                f"{self._tensor} tensor ranks",
                where="tensor-parallel size",
                expected="a divisor of the number of heads, of the feed-forward size and of the "
                f"{manifest.vocabulary_rows} embedding rows",
            )

    def needed_bytes(self) -> int:
        """Return the planned size of the checkpoint in bytes."""
        return checkpoint_size(self._stage.model, self._stage.training, self._manifest.vocabulary_rows).total

    def write(self, folder: Path) -> dict[str, FileEntry]:
        """Write all files, and return their entries by name."""
        tied = {layer for parameter in self._parameters for layer in parameter.tied_layers}
        # DeepSpeed also saves a layer without parameters. It saves a tied head only in the file of the embedding.
        layers = [layer for layer in range(self._manifest.layers) if layer not in tied]
        ranks, replicas = range(self._tensor), range(self._manifest.data_parallel)
        files: dict[str, FileEntry] = {}
        total = self._tensor * (len(layers) + len(self._stages) * (1 + len(replicas)))
        with Progress("write the checkpoint", total, "files") as bar:

            def save(name: str, state: Any) -> None:
                files[name] = write_hashed(folder / name, partial(save_state, state))
                bar.advance()

            for layer in layers:
                for rank in ranks:
                    save(layer_file(layer, rank), self._layer(layer, rank))
            for number, (first, end) in enumerate(self._stages):
                own = held(self._parameters, first, end)
                flat = FlatState(own, self._tensor, len(replicas))
                for rank in ranks:
                    engine = engine_state(own, self._manifest, self._stage.training)
                    save(engine_file(number, rank, self._tensor), engine)
                    for replica in replicas:
                        name = optimizer_file(
                            replica, number, rank, self._tensor, bf16=self._stage.training.precision == "bf16"
                        )
                        save(name, self._optimizer(flat, own, rank, replica))
        return files

    def _layer(self, layer: int, rank: int) -> OrderedDict[str, torch.Tensor]:
        """Return the weights of a pipeline layer on a tensor rank."""
        dtype = getattr(torch, PRECISION_DTYPES[self._stage.training.precision])
        own = [parameter for parameter in self._parameters if parameter.layer == layer]
        return OrderedDict((each.local_name, self._shard(each, MASTER, rank).to(dtype)) for each in own)

    def _optimizer(self, flat: FlatState, own: list[Parameter], rank: int, replica: int) -> dict[str, Any]:
        return optimizer_state(
            flat,
            own,
            replica,
            lambda parameter, kind: self._shard(parameter, kind, rank),
            self._settings,
            self._manifest,
            self._stage.training,
        )

    def _shard(self, parameter: Parameter, kind: str, rank: int) -> torch.Tensor:
        found = self._read(parameter, kind, part_of(parameter, rank, self._tensor))
        shape = parameter.shard_shape(self._tensor)
        assert (found.dtype, tuple(found.shape)) == (torch.float32, shape), f"{parameter.name}: {found.shape}"
        if not is_finite(found):
            what = f"weight {parameter.name}" if kind == MASTER else f"{kind} of {parameter.name}"
            raise CheckFailedError(
                f"{what} is not finite", where="source of the checkpoint", expected="finite weights and moments"
            )
        return found
