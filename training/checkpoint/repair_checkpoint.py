"""Repair a checkpoint in which copies of the same state differ: `bloomery checkpoint repair`.

The repaired checkpoint is made in a folder of its own, whose unchanged files are hard links. Then the old checkpoint
moves to train/before-repair, and the repaired one takes its name. The next start of the training completes a repair
that was interrupted between these two steps.
"""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder, write_bytes
from bloomery.base.digest import sha256_file
from bloomery.base.errors import InputError
from bloomery.checkpoint.files import random_file
from bloomery.contracts.checkpoint import (
    MANIFEST_NAME,
    REFERENCE_BEFORE_REPAIR_NAME,
    REFERENCE_NAME,
    CheckpointManifest,
    Repair,
    read_manifest,
    step_folders,
    verify_file,
    write_manifest,
)
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.paths import RunPaths
from training.checkpoint.repair_tensors import Method, repair_tensors, verify_repaired
from training.resume.complete_repairs import complete_repairs

_RANDOM = "random number states of rank {}"


@dataclass(frozen=True)
class Repaired:
    """Result of a repair."""

    checkpoint: str
    """Name of the checkpoint's folder."""
    tensors: dict[str, float | None]
    """Greatest difference between the first copy and another copy of each repaired tensor. The value is None for random
    number states. The dictionary is empty if all copies were equal."""
    before: Path | None
    """Folder of the checkpoint as it was before the repair. None if nothing was repaired."""


def repair_checkpoint(paths: RunPaths, name: str | None, method: Method) -> Repaired:
    """Make the copies in a checkpoint equal. The caller holds the lease of the training.

    Args:
        paths: paths of the run.
        name: name of the checkpoint's folder. None for the newest checkpoint.
        method: `mean-fp32` replaces differing copies of fp32 state by their mean, `rank0` by the first copy.

    Raises:
        CheckFailedError: a file differs from the manifest, or the result is not finite. Nothing was changed.
        InputError: the checkpoint does not exist, or a file of it is damaged.
        ResourceError: the disk is full or not writable. Nothing was changed.
    """
    complete_repairs(paths)
    folder = _chosen(paths, name)
    work = paths.repairing / "work"
    with explained(work):
        work.mkdir(parents=True)
        manifest = _link(folder, work)
        try:
            differences, changed = repair_tensors(work, method)
            found = {**differences, **_repair_random_states(work, manifest, changed)}
            if not found:
                return Repaired(folder.name, {}, None)
            _write_repaired_manifest(work, folder, manifest, method, found, changed)
            verify_repaired(work)
            fsync_folder(work)
            work.rename(paths.repairing / folder.name)
            fsync_folder(paths.repairing)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    (before,) = complete_repairs(paths)
    return Repaired(folder.name, found, before)


def check_run(paths: RunPaths) -> None:
    """Raise InputError if the run has no folder of checkpoints. Call this before the lease creates the run's folder."""
    if not paths.checkpoints.is_dir():
        raise InputError(
            "this run has no checkpoints",
            where=str(paths.checkpoints),
            expected="--run with the folder of a run that has saved a checkpoint",
        )


def _chosen(paths: RunPaths, name: str | None) -> Path:
    """Return the folder of the checkpoint `name`, or of the newest checkpoint if `name` is None."""
    folders = {path.name: path for path in step_folders(paths.checkpoints)}
    wanted = next(iter(folders), None) if name is None else name
    if wanted not in folders:
        raise InputError(
            "this run has no checkpoints" if name is None else f"no checkpoint {name}",
            where=str(paths.checkpoints),
            expected=f"--checkpoint with the name of a checkpoint: {', '.join(folders) or 'this run has none yet'}",
        )
    return folders[wanted]


def _link(folder: Path, work: Path) -> CheckpointManifest:
    """Link all files that the manifest lists, and copy the manifest. Return the manifest."""
    manifest = read_manifest(folder)
    write_bytes(work / MANIFEST_NAME, (folder / MANIFEST_NAME).read_bytes())
    for name in manifest.files:
        verify_file(folder, manifest, name)
        try:
            os.link(folder / name, work / name)
        except OSError:  # a file system without hard links
            shutil.copyfile(folder / name, work / name)
    return manifest


def _repair_random_states(work: Path, manifest: CheckpointManifest, changed: list[str]) -> dict[str, None]:
    """Replace the random number states of every rank that differ from those of rank 0.

    Add the names of the replaced files to `changed`. Return the name of each replaced state, with None in place of
    a difference.
    """
    first = random_file(0)
    if first not in manifest.files:
        return {}
    found: dict[str, None] = {}
    for rank in range(manifest.tensor_parallel * manifest.pipeline_parallel * manifest.data_parallel):
        name = random_file(rank)
        if name in manifest.files and manifest.files[name].sha256 != manifest.files[first].sha256:
            write_bytes(work / name, (work / first).read_bytes())
            changed.append(name)
            found[_RANDOM.format(rank)] = None
    return found


def _write_repaired_manifest(
    work: Path,
    folder: Path,
    manifest: CheckpointManifest,
    method: Method,
    found: dict[str, float | None],
    changed: list[str],
) -> None:
    """Write the manifest of the repaired checkpoint.

    If weights or fp32 state changed, the reference logits do not fit the repaired network. They are kept under another
    name, for comparison. The first training that loads the checkpoint computes new reference logits.
    """
    files = dict(manifest.files)
    for name in changed:
        files[name] = FileEntry.of(work / name)
    if any(not name.startswith("random_") for name in changed) and REFERENCE_NAME in files:
        (work / REFERENCE_NAME).rename(work / REFERENCE_BEFORE_REPAIR_NAME)
        files[REFERENCE_BEFORE_REPAIR_NAME] = files.pop(REFERENCE_NAME)
    finite = {name: value if value is not None and math.isfinite(value) else None for name, value in found.items()}
    repair = Repair(
        iteration=manifest.iteration,
        method=method,
        tensors=dict(sorted(finite.items())),
        manifest_sha256=sha256_file(folder / MANIFEST_NAME),
    )
    update = {"files": dict(sorted(files.items())), "repairs": [*manifest.repairs, repair]}
    write_manifest(work, manifest.model_copy(update=update))
