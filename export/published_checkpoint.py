"""Choose the checkpoints that are published beside the final model, and record each publication.

    results/checkpoints/<model>/<checkpoint>.json   record of a published checkpoint
    results/checkpoints/<model>/<checkpoint>/       exported model, which is removed after its upload to a Hub

The record holds the digests of the published files. A later publication compares them with the Hub, so it need not
export the checkpoint again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.bundle import Bundle, LocalFile
from bloomery.base.errors import InputError
from bloomery.config.section import Count
from bloomery.contracts.checkpoint import DAMAGED_NAME, step_folders
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import SafeName, SafePath

BRANCH = "checkpoints"
"""Branch of the Hub's repository that holds the commits of all checkpoints. `main` holds the final model only."""


class PublishedFile(BaseModel):
    """Size and digests of a published file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: Count
    sha256: str
    git_oid: str
    """SHA-1 of the git blob, which identifies small files on the Hub."""

    @classmethod
    def of(cls, file: LocalFile) -> PublishedFile:
        """Return the entry of a file that was sent."""
        return cls(bytes=file.size, sha256=file.sha256, git_oid=file.git_oid)

    @property
    def expected(self) -> LocalFile:
        """The file as `Hub.different_files` compares it. It has no content."""
        return LocalFile(b"", self.bytes, self.sha256, self.git_oid)


class PublishedCheckpoint(BaseModel):
    """Record of a checkpoint that was published and verified."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint: SafeName
    """Name of the checkpoint, which is also the name of the tag."""
    endpoint: str
    repository: str
    commit: str
    made_from: dict[str, str]
    """Digests of the checkpoint, the tokenizer and the configuration that it was exported from."""
    files: dict[SafePath, PublishedFile]


@dataclass(frozen=True)
class CheckpointPaths:
    """Paths of the publication of one checkpoint."""

    checkpoint: Path
    """Folder of the checkpoint."""
    record: Path
    exported: Path
    """Folder of the exported model."""

    @classmethod
    def of(cls, paths: RunPaths, model: str, checkpoint: Path) -> CheckpointPaths:
        """Return the paths of a checkpoint of the run, for the model named `model`."""
        folder = published_folder(paths, model)
        return cls(checkpoint, folder / f"{checkpoint.name}.json", folder / checkpoint.name)

    @property
    def name(self) -> str:
        """Name of the checkpoint, such as `step00001000`."""
        return self.checkpoint.name


def published_folder(paths: RunPaths, model: str) -> Path:
    """Return the folder of the records and the exported models of a model's checkpoints."""
    return paths.results / BRANCH / model


def choose_every(paths: RunPaths, model: str, every: int, final: str) -> list[CheckpointPaths]:
    """Return the kept checkpoints whose iteration is a multiple of `every`, oldest first, without the one of `final`.

    Args:
        paths: the paths of the run.
        model: name of the exported model.
        every: number of iterations.
        final: name of the checkpoint that `main` holds.

    Raises:
        InputError: the run kept no such checkpoint.
    """
    kept = [folder for folder in step_folders(paths.checkpoints) if not (folder / DAMAGED_NAME).exists()]
    chosen = [folder for folder in kept if _iteration(folder) % every == 0]
    if not chosen:
        found = ", ".join(str(_iteration(folder)) for folder in reversed(kept[:10])) or "none"
        raise InputError(
            f"the run kept no checkpoint at a multiple of {every} iterations",
            where=str(paths.checkpoints),
            expected=f"--every with a number that divides the iteration of a kept checkpoint (the newest: {found}); "
            "set training.checkpoint.keep_every_iterations to keep checkpoints",
        )
    return [CheckpointPaths.of(paths, model, folder) for folder in reversed(chosen) if folder.name != final]


def _iteration(folder: Path) -> int:
    return int(folder.name.removeprefix("step"))


def write_record(
    path: Path, checkpoint: str, endpoint: str, repository: str, commit: str, made_from: Mapping[str, str], sent: Bundle
) -> None:
    """Record a checkpoint whose files the Hub has, with verified digests."""
    files = {name: PublishedFile.of(file) for name, file in sent.files.items()}
    record = PublishedCheckpoint(
        checkpoint=checkpoint,
        endpoint=endpoint,
        repository=repository,
        commit=commit,
        made_from=dict(made_from),
        files=files,
    )
    write_json(path, record.model_dump(mode="json"))


def read_record(path: Path) -> PublishedCheckpoint | None:
    """Return the record of a published checkpoint. Return None if it is missing or damaged.

    A damaged record only causes another export, whose files are compared with the Hub.
    """
    if not path.is_file():
        return None
    try:
        return PublishedCheckpoint.model_validate(read_json(path))
    except (InputError, ValidationError):
        return None
