"""The folder of a training's checkpoints on disk: make room for one, give it its name, remove old ones. Rank 0's work.

What is being written stands in `.saving`, what is being removed in `.removing`: a process that is killed leaves a
checkpoint whole or not at all, and the next save clears up after it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder, write_text
from bloomery.base.errors import BloomeryError, ResourceError
from bloomery.base.units import format_bytes
from bloomery.config.training_loop import CheckpointConfig
from bloomery.contracts.checkpoint import (
    LATEST_NAME,
    CheckpointManifest,
    read_checkpoint,
    step_folders,
    step_name,
    write_manifest,
)
from bloomery.spec.save_points import kept


class CheckpointFolders:
    """Checkpoints below `folder`."""

    def __init__(self, folder: Path, config: CheckpointConfig) -> None:
        self.folder = folder
        self.damaged: frozenset[str] = frozenset()
        """Names of checkpoints that do not match their manifest."""
        self.newest: str | None = None
        """Name of the newest good one."""
        self._config = config

    def work(self, iteration: int) -> Path:
        """Where the checkpoint of `iteration` is written until it is whole."""
        return self.folder / ".saving" / step_name(iteration)

    def has(self, iteration: int, wanted: Callable[[CheckpointManifest], bool]) -> bool:
        """Whether a good checkpoint of `iteration` is there that is `wanted`."""
        folder = self.folder / step_name(iteration)
        if folder not in step_folders(self.folder) or folder.name in self.damaged:
            return False
        try:
            return wanted(read_checkpoint(folder))
        except BloomeryError:
            return False

    def begin(self, iteration: int, needed_bytes: int) -> None:
        """Make the `work` folder. Raises ResourceError before the first byte when the checkpoint cannot fit."""
        work = self.work(iteration)
        self.give_up()
        with explained(work):
            # NFS keeps a folder while somebody has a removed file of it open.
            work.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(work).free
        if free < needed_bytes:
            self.give_up()
            raise ResourceError(
                f"the disk is full: a checkpoint needs {format_bytes(needed_bytes)}, {format_bytes(free)} are free",
                where=str(self.folder),
                expected="free space; the newest checkpoint there is whole, and the same command goes on from it",
            )

    def seal(self, manifest: CheckpointManifest) -> None:
        """Give a checkpoint, all of whose files are in `work`, its manifest and its name; then remove old ones."""
        work, target = self.work(manifest.iteration), self.folder / step_name(manifest.iteration)
        with explained(work):
            write_manifest(work, manifest)
            if target.exists():
                self._remove(target)
            work.rename(target)
            fsync_folder(self.folder)
            write_text(self.folder / LATEST_NAME, target.name + "\n")
        self.give_up()
        self.damaged -= {target.name}
        self.newest = target.name
        self.prune()

    def give_up(self) -> None:
        """Remove what was being written."""
        shutil.rmtree(self.folder / ".saving", ignore_errors=True)

    def prune(self) -> None:
        """Remove what the configuration does not keep, and damaged ones that a newer good one has replaced."""
        # Beyond the newest good one only damaged ones stand: training comes there again and replaces them.
        there = [path for path in step_folders(self.folder) if self.newest is not None and path.name <= self.newest]
        good = [_iteration(path) for path in there if path.name not in self.damaged]
        stays = {step_name(iteration) for iteration in kept(self._config, good)}
        for path in there:
            if path.name not in stays:
                self._remove(path)

    def _remove(self, checkpoint: Path) -> None:
        """Remove a checkpoint, gone at once for whoever looks for it."""
        removing = self.folder / ".removing"
        # A file that cannot go now (somebody reads it over NFS) must not end a training: the next removal has it.
        shutil.rmtree(removing, ignore_errors=True)
        removing.mkdir(exist_ok=True)
        checkpoint.rename(removing / checkpoint.name)
        shutil.rmtree(removing, ignore_errors=True)


def _iteration(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step"))
