"""Define a checkpoint: DeepSpeed's folder and a `manifest.json` that is written last.

The manifest holds the hashes of all files and its own digest. Only files that match the manifest are unpickled. If
files differ from the manifest, or the checkpoint cannot be loaded, the training loads an older checkpoint and marks
the damaged one with a file `damaged.json`. Checkpoints with this mark are skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.digest import sha256_file
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.self_digest import check_file, write_with_own_digest
from bloomery.config.explain_value import wrong_values
from bloomery.config.section import Count, Positive
from bloomery.config.training import Ranks
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.safe_path import SafePath
from bloomery.contracts.sample_prefix import SamplePrefix

MANIFEST_NAME = "manifest.json"
LATEST_NAME = "latest"
"""File beside the checkpoints that names the newest one. DeepSpeed's tools look for it."""
REFERENCE_NAME = "reference.safetensors"
"""File with reference tokens (int64, [samples, length]) and the fp32 logits of the training model for them ([samples,
length, vocabulary_rows])."""
DAMAGED_NAME = "damaged.json"
"""File that marks a checkpoint as damaged. It states the problem."""
REFERENCE_BEFORE_REPAIR_NAME = "reference_before_repair.safetensors"
"""Reference file of a checkpoint as it was before the checkpoint was repaired."""
_STEP = re.compile(r"step\d{8}")
_RESTORE = "restore this file from a copy of the checkpoint, or use another checkpoint"


class Change(BaseModel):
    """One key of the configuration whose value changed when a training resumed from a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: Count
    """Last iteration that was trained with the old value."""
    key: str
    before: JsonValue
    after: JsonValue


class Repair(BaseModel):
    """Record of a repair that made the copies of a checkpoint's state equal (`bloomery checkpoint repair`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    """Iteration of the repaired checkpoint."""
    method: Literal["mean-fp32", "rank0"]
    """`mean-fp32`: differing copies were replaced by their mean. `rank0`: they were replaced by the first copy."""
    tensors: dict[str, float | None]
    """Greatest difference between two copies of each repaired tensor. None for random number states, and if a copy was
    not finite."""
    manifest_sha256: str
    """SHA-256 of the manifest.json of the checkpoint before the repair."""


class CheckpointManifest(BaseModel):
    """Manifest of a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    identity: str
    """Digest of everything that determines the training, except its samples."""
    prefix: SamplePrefix
    """Everything that determines the samples that the training has consumed."""
    config: dict[str, object]
    """Training's part of the configuration (TrainStage) as JSON."""
    iteration: Count
    consumed_samples: Count
    consumed_tokens: Count
    skipped_samples: Count = 0
    """Number of consumed samples that the model was not trained on."""
    skipped_updates: Count = 0
    """Number of iterations that did not update the weights."""
    non_finite: Count = 0
    """Number of skipped updates whose loss or gradient was not finite."""
    changes: list[Change] = []
    """Changes of the configuration since the training began, in order."""
    repairs: list[Repair] = []
    """Repairs of this checkpoint and of the checkpoints that the training resumed from, in order."""
    tensor_parallel: Ranks
    pipeline_parallel: Ranks
    data_parallel: Ranks
    sequence_parallel: bool = False
    stage_layers: list[Count] | None = None
    """First pipeline layer of each stage, followed by the number of layers.

    It is None in checkpoints of older versions. The stages of such a checkpoint are computed from the configuration.
    """
    vocabulary_size: Positive
    """Number of entries of the tokenizer."""
    vocabulary_rows: Positive
    """Number of rows of the embedding."""
    layers: Positive
    """Number of pipeline layers. Layer files are numbered by pipeline layer."""
    versions: dict[str, str]
    """Versions of the software that saved the checkpoint, by name: `bloomery`, its git `commit`, `torch` and
    `deepspeed`. Checkpoints of older versions of Bloomery lack the first two."""
    files: dict[SafePath, FileEntry]


def step_name(iteration: int) -> str:
    """Return the name of a checkpoint's folder, such as `step00000100`."""
    return f"step{iteration:08d}"


def step_folders(folder: Path) -> list[Path]:
    """Return the folders with a checkpoint's name, newest first.

    A folder gets this name only when the checkpoint is complete, so any missing file was lost later.

    Raises:
        OSError: the disk does not answer. The error is raised because an empty list would make the training start from
            scratch.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if _STEP.fullmatch(entry.name) and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / name for name in sorted(names, reverse=True)]


def newest_manifest(folder: Path) -> CheckpointManifest | None:
    """Return the manifest of the newest undamaged checkpoint in `folder`; None if `folder` has no such checkpoint.

    Damaged manifests are skipped here. They are reported when a checkpoint is loaded.
    """
    return next(readable_checkpoints(folder), None)


def readable_checkpoints(folder: Path) -> Iterator[CheckpointManifest]:
    """Yield the manifests of the undamaged checkpoints in `folder`, newest first."""
    for checkpoint in step_folders(folder):
        try:
            yield read_checkpoint(checkpoint)
        except InputError:
            continue


def layer_file(layer: int, tensor_rank: int) -> str:
    """Return the name of the file in which DeepSpeed saves a tensor-parallel rank's part of a pipeline layer."""
    return f"layer_{layer:02d}-model_{tensor_rank:02d}-model_states.pt"


def write_manifest(folder: Path, manifest: CheckpointManifest) -> None:
    """Write the manifest with its digest, which makes the checkpoint valid."""
    write_with_own_digest(folder / MANIFEST_NAME, manifest.model_dump(mode="json"))


def mark_damaged(folder: Path, problem: str) -> None:
    """Mark a checkpoint as damaged, so that `read_checkpoint` refuses the checkpoint from now on."""
    write_json(folder / DAMAGED_NAME, {"problem": problem})


def marked_problem(folder: Path) -> str | None:
    """Return the problem that the checkpoint's mark states. None if the checkpoint is not marked as damaged."""
    try:
        found = read_json(folder / DAMAGED_NAME)
    except InputError as error:
        return None if isinstance(error.__cause__, FileNotFoundError) else "the mark does not state the problem"
    return str(found["problem"]) if isinstance(found, dict) and "problem" in found else str(found)


def read_checkpoint(folder: Path) -> CheckpointManifest:
    """Read the manifest of a checkpoint that is not marked as damaged.

    Raises:
        InputError: the checkpoint is marked as damaged; or its manifest is damaged, or missing because the checkpoint
            was never completed.
        TryAgainError: the disk or file server does not respond.
    """
    if (problem := marked_problem(folder)) is not None:
        raise InputError(
            f"the checkpoint is marked as damaged: {problem}",
            where=str(folder),
            expected=f"an undamaged checkpoint; if you have repaired this one, delete its file {DAMAGED_NAME}",
        )
    return read_manifest(folder)


def read_manifest(folder: Path) -> CheckpointManifest:
    """Read a checkpoint's manifest, whether or not the checkpoint is marked as damaged.

    Manifests of earlier versions of Bloomery have no digest and are read without this check.

    Raises:
        InputError: the manifest is missing or damaged, or it changed after it was written.
        TryAgainError: the disk or file server does not respond.
    """
    path = folder / MANIFEST_NAME
    try:
        return CheckpointManifest.model_validate(check_file(path, restore=_RESTORE, required=False))
    except ValidationError as error:
        raise InputError(
            f"not a checkpoint manifest: {wrong_values(error, CheckpointManifest)}",
            where=str(path),
            expected="a manifest that this version of Bloomery wrote; use another checkpoint",
        ) from error


def lacks_reference(manifest: CheckpointManifest) -> bool:
    """Whether a checkpoint was repaired and has no new reference logits. The training that loads it computes them."""
    return REFERENCE_NAME not in manifest.files and REFERENCE_BEFORE_REPAIR_NAME in manifest.files


def verify_file(folder: Path, manifest: CheckpointManifest, name: str) -> Path:
    """Compare the size and hash of one file with the manifest, and return the file's path.

    Raises:
        CheckFailedError: the file is missing or differs from the manifest, or the manifest does not list it.
    """
    path = folder / name
    entry = manifest.files.get(name)
    if entry is None:
        raise CheckFailedError(
            f"the checkpoint's {MANIFEST_NAME} does not list this file",
            where=str(path),
            expected="a complete checkpoint; use another one",
        )
    if not path.is_file():
        raise CheckFailedError(
            "the file is missing", where=str(path), expected=f"the file that {MANIFEST_NAME} lists; {_RESTORE}"
        )
    size = path.stat().st_size
    if size != entry.bytes:
        raise CheckFailedError(
            f"the file has {size} bytes", where=str(path), expected=f"{entry.bytes} bytes; {_RESTORE}"
        )
    if sha256_file(path) != entry.sha256:
        raise CheckFailedError(
            "the file's content differs from the manifest",
            where=str(path),
            expected=f"SHA-256 {entry.sha256}; {_RESTORE}",
        )
    return path
