"""Define a checkpoint: DeepSpeed's folder and a `manifest.json` that is written last.

Only files that match the manifest are unpickled.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.digest import sha256_file
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.config.explain_value import wrong_values
from bloomery.contracts.sample_prefix import SamplePrefix

MANIFEST_NAME = "manifest.json"
LATEST_NAME = "latest"
"""File beside the checkpoints that names the newest one. DeepSpeed's tools look for it."""
REFERENCE_NAME = "reference.safetensors"
"""File with reference tokens (int64, [samples, length]) and the fp32 logits of the training model for them ([samples,
length, vocabulary_rows])."""
_STEP = re.compile(r"step\d{8}")
_RESTORE = "restore this file from a copy of the checkpoint, or use another checkpoint"


class FileEntry(BaseModel):
    """Size and SHA-256 of one file of the checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: int
    sha256: str


class Change(BaseModel):
    """One key of the configuration whose value changed when a training resumed from a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    """Last iteration that was trained with the old value."""
    key: str
    before: JsonValue
    after: JsonValue


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
    iteration: int
    consumed_samples: int
    consumed_tokens: int
    skipped_samples: int = 0
    """Number of consumed samples that the model was not trained on."""
    skipped_updates: int = 0
    """Number of iterations that did not update the weights."""
    non_finite: int = 0
    """Number of skipped updates whose loss or gradient was not finite."""
    changes: list[Change] = []
    """Changes of the configuration since the training began, in order."""
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    sequence_parallel: bool = False
    stage_layers: list[int] | None = None
    """First pipeline layer of each stage, followed by the number of layers.

    It is None in checkpoints of older versions. The stages of such a checkpoint are computed from the configuration.
    """
    vocabulary_size: int
    """Number of entries of the tokenizer."""
    vocabulary_rows: int
    """Number of rows of the embedding."""
    layers: int
    """Number of pipeline layers. Layer files are numbered by pipeline layer."""
    versions: dict[str, str]
    files: dict[str, FileEntry]


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
    for checkpoint in step_folders(folder):
        try:
            return read_checkpoint(checkpoint)
        except InputError:
            continue
    return None


def layer_file(layer: int, tensor_rank: int) -> str:
    """Return the name of the file in which DeepSpeed saves a tensor-parallel rank's part of a pipeline layer."""
    return f"layer_{layer:02d}-model_{tensor_rank:02d}-model_states.pt"


def list_files(folder: Path) -> dict[str, FileEntry]:
    """Return the size and hash of every file in a checkpoint's folder, except its manifest."""
    return {
        path.relative_to(folder).as_posix(): FileEntry(bytes=path.stat().st_size, sha256=sha256_file(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME and not path.name.endswith(".tmp")
    }


def write_manifest(folder: Path, manifest: CheckpointManifest) -> None:
    """Write the manifest, which makes the checkpoint valid."""
    write_json(folder / MANIFEST_NAME, manifest.model_dump(mode="json"))


def read_checkpoint(folder: Path) -> CheckpointManifest:
    """Read a checkpoint's manifest.

    Raises:
        InputError: the manifest is damaged, or it is missing because the checkpoint was never completed.
    """
    try:
        return CheckpointManifest.model_validate(read_json(folder / MANIFEST_NAME))
    except ValidationError as error:
        raise InputError(
            f"not a checkpoint manifest: {wrong_values(error, CheckpointManifest)}",
            where=str(folder / MANIFEST_NAME),
            expected="a manifest that this version of Bloomery wrote; use another checkpoint",
        ) from error


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
