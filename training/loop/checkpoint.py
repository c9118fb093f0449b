"""Save, find and load checkpoints.

A checkpoint is written into a hidden folder, hashed, given its manifest and then renamed: a folder with a step's
name is whole. On load the newest one whose hashes hold is taken; a damaged one is passed over and named.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.distributed as dist

from bloomery.base.atomic import explained, fsync_folder, write_text
from bloomery.base.errors import BloomeryError, CheckFailedError, ResourceError
from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from bloomery.config.training import CheckpointConfig
from bloomery.contracts.checkpoint import (
    MANIFEST_NAME,
    REFERENCE_NAME,
    CheckpointManifest,
    list_files,
    read_checkpoint,
    step_folders,
    step_name,
    verify_checkpoint,
    write_manifest,
)
from bloomery.contracts.index import IndexManifest
from bloomery.contracts.prefix import sample_prefix
from bloomery.plan.parameters import layer_count, parameter_count
from training.loop.engine import Trainer
from training.loop.identity import continues
from training.loop.reference import LENGTH, SAMPLES, save_reference

LATEST = "latest"


@dataclass(frozen=True)
class Position:
    """Where a training stands."""

    iteration: int = 0
    consumed_samples: int = 0
    consumed_tokens: int = 0


def save(
    trainer: Trainer, folder: Path, position: Position, identity: str, index: IndexManifest, tokens: torch.Tensor
) -> str:
    """Save the training at `position`; returns the folder's name. Collective."""
    name, mesh = step_name(position.iteration), trainer.mesh
    if (folder / name / MANIFEST_NAME).is_file() and continues(read_checkpoint(folder / name), identity, index):
        return name
    work = folder / ".saving"
    if mesh.rank == 0:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(folder / name, ignore_errors=True)
        with explained(work):
            work.mkdir(parents=True)
        _require_space(trainer, work)
    dist.barrier()
    with _disk_explained(trainer, work), contextlib.redirect_stdout(io.StringIO()):
        trainer.engine.save_checkpoint(str(work), tag=name, save_latest=False)
        save_reference(work / name / REFERENCE_NAME, trainer, tokens)
    dist.barrier()
    if mesh.rank == 0:
        with explained(folder):
            _seal(trainer, work / name, position, identity, index)
            (work / name).rename(folder / name)
            fsync_folder(folder)
            write_text(folder / LATEST, name + "\n")
        # With what is left there: DeepSpeed's recovery scripts, which cannot read a 3D checkpoint.
        shutil.rmtree(work)
    dist.barrier()
    return name


def _expected_bytes(trainer: Trainer) -> int:
    """Size of a checkpoint: weights, and fp32 master weights with Adam's two moments (BLOOM: 14 bytes a parameter)."""
    count = parameter_count(trainer.stage.model, trainer.vocabulary_rows)
    reference = SAMPLES * LENGTH * trainer.vocabulary_rows * 4
    return count * (trainer.dtype.itemsize + 12) + reference


def _require_space(trainer: Trainer, work: Path) -> None:
    """Refuse before the first byte when the checkpoint cannot fit. Raises ResourceError."""
    needed, free = _expected_bytes(trainer), shutil.disk_usage(work).free
    if free < needed:
        shutil.rmtree(work, ignore_errors=True)
        raise ResourceError(
            f"the disk is full: a checkpoint needs {format_bytes(needed)}, {format_bytes(free)} are free",
            where=str(work.parent),
            expected="free space; the newest checkpoint there is whole, and the same command goes on from it",
        )


@contextlib.contextmanager
def _disk_explained(trainer: Trainer, work: Path) -> Iterator[None]:
    """Name a disk that fills up while DeepSpeed writes: torch hides the OSError in a RuntimeError."""
    try:
        with explained(work):
            yield
    except (RuntimeError, ResourceError):
        _require_space(trainer, work)
        raise


def _sync(folder: Path) -> None:
    """Make every file of a checkpoint durable before its manifest says that it exists; DeepSpeed does not."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as handle:
                os.fsync(handle.fileno())


def _seal(trainer: Trainer, folder: Path, position: Position, identity: str, index: IndexManifest) -> None:
    parallel = trainer.mesh.parallel
    _sync(folder)
    manifest = CheckpointManifest(
        identity=identity,
        prefix=sample_prefix(index, position.consumed_samples),
        config=trainer.stage.model_dump(mode="json"),
        iteration=position.iteration,
        consumed_samples=position.consumed_samples,
        consumed_tokens=position.consumed_tokens,
        tensor_parallel=parallel.tensor,
        pipeline_parallel=parallel.pipeline,
        data_parallel=parallel.data,
        vocabulary_size=index.vocabulary_size,
        vocabulary_rows=trainer.vocabulary_rows,
        layers=layer_count(trainer.stage.model),
        versions={"torch": torch.__version__, "deepspeed": deepspeed.__version__},
        files=list_files(folder),
    )
    write_manifest(folder, manifest)


def newest_good(folder: Path, identity: str, index: IndexManifest) -> tuple[Path, CheckpointManifest] | None:
    """The newest checkpoint of this training whose files match its manifest; damaged ones are named on stderr.

    None when there is none yet. Raises CheckFailedError when all of them are damaged: a training that took weeks must
    not begin again by itself.
    """
    damaged = []
    for candidate in step_folders(folder):
        try:
            manifest = read_checkpoint(candidate)
            if not continues(manifest, identity, index):
                continue
            verify_checkpoint(candidate, manifest)
        except BloomeryError as error:
            say(f"checkpoint {candidate.name} is damaged and passed over: {error}")
            damaged.append(candidate.name)
            continue
        return candidate, manifest
    if damaged:
        raise CheckFailedError(
            f"every checkpoint is damaged ({', '.join(damaged)})",
            where=str(folder),
            expected="a good copy of one of them; or move the folder away to train from the beginning",
        )
    return None


def load(trainer: Trainer, folder: Path, identity: str, index: IndexManifest) -> Position:
    """Load the newest good checkpoint, if any, and say where the training stands. Collective.

    Rank 0 verifies; DeepSpeed's loader, which unpickles, only ever sees files whose hashes match our manifest.
    """
    found: list[Any] = [None]
    if trainer.mesh.rank == 0:
        good = newest_good(folder, identity, index)
        if good is not None:
            path, manifest = good
            found = [(path.name, manifest.iteration, manifest.consumed_samples, manifest.consumed_tokens)]
    dist.broadcast_object_list(found, src=0)
    if found[0] is None:
        return Position()
    name, iteration, samples, tokens = found[0]
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.engine.load_checkpoint(str(folder), tag=name)
    return Position(iteration, samples, tokens)


def prune(folder: Path, keep: CheckpointConfig) -> None:
    """Remove old checkpoints: the newest `keep_last` stay, and those at multiples of `keep_every_iterations`."""
    for old in step_folders(folder)[keep.keep_last :]:
        iteration = int(old.name.removeprefix("step"))
        if keep.keep_every_iterations and iteration % keep.keep_every_iterations == 0:
            continue
        # The manifest goes first: a half-removed checkpoint must not look whole.
        (old / MANIFEST_NAME).unlink()
        shutil.rmtree(old)
