"""A checkpoint: DeepSpeed's folder and `manifest.json`, written last. Only what matches its manifest is unpickled."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.digest import sha256_file
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.contracts.sample_prefix import SamplePrefix

MANIFEST_NAME = "manifest.json"
LATEST_NAME = "latest"
"""Beside the checkpoints: the name of the newest one, as DeepSpeed's tools look for it."""
REFERENCE_NAME = "reference.safetensors"
"""Tokens (int64, [samples, length]) and fp32 logits ([samples, length, vocabulary_rows]) of the training model."""
_STEP = re.compile(r"step\d{8}")


class FileEntry(BaseModel):
    """Size and SHA-256 of one file of the checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: int
    sha256: str


class Change(BaseModel):
    """A key of the configuration that changed when a training went on from a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    """Last one that was trained with the old value."""
    key: str
    before: JsonValue
    after: JsonValue


class CheckpointManifest(BaseModel):
    """What a checkpoint holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    identity: str
    """Digest of what it was trained from, its samples aside."""
    prefix: SamplePrefix
    """What decided the samples that it was trained from."""
    config: dict[str, object]
    """The training's part of the configuration (TrainStage) as JSON."""
    iteration: int
    consumed_samples: int
    consumed_tokens: int
    skipped_samples: int = 0
    """Of the consumed samples, those that were not trained on."""
    skipped_updates: int = 0
    """Iterations that left the weights as they were."""
    non_finite: int = 0
    """Of them, those whose loss or gradient was not finite."""
    changes: list[Change] = []
    """In the order in which they came."""
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    sequence_parallel: bool = False
    stage_layers: list[int] | None = None
    """First pipeline layer of each stage, then the number of layers; None: of an older version, as its plan says."""
    vocabulary_size: int
    """Entries of the tokenizer."""
    vocabulary_rows: int
    """Rows of the embedding."""
    layers: int
    """Pipeline layers; layer files are numbered by them."""
    versions: dict[str, str]
    files: dict[str, FileEntry]


def step_name(iteration: int) -> str:
    """Folder of a checkpoint: `step00000100`."""
    return f"step{iteration:08d}"


def step_folders(folder: Path) -> list[Path]:
    """Folders that have a checkpoint's name, newest first. They get it whole: what is missing was lost.

    Raises OSError where the disk does not answer: that is no training without checkpoints, which would begin anew.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if _STEP.fullmatch(entry.name) and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / name for name in sorted(names, reverse=True)]


def newest_manifest(folder: Path) -> CheckpointManifest | None:
    """Manifest of the newest checkpoint in `folder`; a damaged one is passed over: who loads checkpoints names it."""
    for checkpoint in step_folders(folder):
        try:
            return read_checkpoint(checkpoint)
        except InputError:
            continue
    return None


def layer_file(layer: int, tensor_rank: int) -> str:
    """DeepSpeed's file of one pipeline layer on one tensor-parallel rank."""
    return f"layer_{layer:02d}-model_{tensor_rank:02d}-model_states.pt"


def list_files(folder: Path) -> dict[str, FileEntry]:
    """Size and hash of every file below a checkpoint's folder, its manifest aside."""
    return {
        path.relative_to(folder).as_posix(): FileEntry(bytes=path.stat().st_size, sha256=sha256_file(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME and not path.name.endswith(".tmp")
    }


def write_manifest(folder: Path, manifest: CheckpointManifest) -> None:
    """Write the manifest: from now on the checkpoint exists."""
    write_json(folder / MANIFEST_NAME, manifest.model_dump(mode="json"))


def read_checkpoint(folder: Path) -> CheckpointManifest:
    """Read a checkpoint's manifest. Raises InputError when there is none (it was never finished)."""
    try:
        return CheckpointManifest.model_validate(read_json(folder / MANIFEST_NAME))
    except ValidationError as error:
        raise InputError(f"not a checkpoint manifest: {error}", where=str(folder / MANIFEST_NAME)) from error


def verify_file(folder: Path, manifest: CheckpointManifest, name: str) -> Path:
    """Compare one file's size and hash with the manifest; returns its path. Raises CheckFailedError if they differ."""
    path = folder / name
    entry = manifest.files.get(name)
    if entry is None:
        raise CheckFailedError("the manifest does not list this file", where=str(path))
    if not path.is_file():
        raise CheckFailedError("file is missing", where=str(path), expected="as the manifest lists it")
    size = path.stat().st_size
    if size != entry.bytes:
        raise CheckFailedError(f"has {size} bytes", where=str(path), expected=f"{entry.bytes} bytes")
    if sha256_file(path) != entry.sha256:
        raise CheckFailedError("content differs from the manifest", where=str(path), expected=entry.sha256)
    return path
