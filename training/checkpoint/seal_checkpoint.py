"""Manage the folder of a training's checkpoints: begin a checkpoint, seal it, and remove old ones. Runs on rank 0.

A checkpoint is written in `.saving` and removed in `.removing`. So a killed process never leaves an incomplete
checkpoint under a checkpoint's name, and the next save removes the leftovers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder, write_text
from bloomery.base.errors import BloomeryError, NoSpaceError
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
    """Manager of the checkpoints in `folder`."""

    def __init__(self, folder: Path, config: CheckpointConfig) -> None:
        self.folder = folder
        self.damaged: frozenset[str] = frozenset()
        """Names of checkpoints that do not match their manifest."""
        self.newest: str | None = None
        """Name of the newest good checkpoint."""
        self._config = config

    def work(self, iteration: int) -> Path:
        """Return the folder in which the checkpoint of `iteration` is written until it is complete."""
        return self.folder / ".saving" / step_name(iteration)

    def has(self, iteration: int, wanted: Callable[[CheckpointManifest], bool]) -> bool:
        """Whether a good checkpoint of `iteration` exists and `wanted` accepts its manifest."""
        folder = self.folder / step_name(iteration)
        if folder not in step_folders(self.folder) or folder.name in self.damaged:
            return False
        try:
            return wanted(read_checkpoint(folder))
        except BloomeryError:
            return False

    def begin(self, iteration: int, needed_bytes: int) -> None:
        """Create the `work` folder of `iteration`.

        Raises:
            NoSpaceError: fewer than `needed_bytes` are free. The error is raised before any file is written.
        """
        work = self.work(iteration)
        self.give_up()
        with explained(work):
            # The folder may still exist: NFS keeps a folder while a process has a removed file of it open.
            work.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(work).free
        if free < needed_bytes:
            self.give_up()
            raise NoSpaceError(
                f"the disk is full: a checkpoint needs {format_bytes(needed_bytes)}, but only {format_bytes(free)} "
                "are free",
                where=str(self.folder),
                expected="more free space; then run the same command again to resume from the newest complete "
                "checkpoint",
            )

    def seal(self, manifest: CheckpointManifest) -> None:
        """Write the manifest into the `work` folder, rename the folder to its final name, and prune old checkpoints.

        All files of the checkpoint must already be in the `work` folder.
        """
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
        """Remove the files of an unfinished save."""
        shutil.rmtree(self.folder / ".saving", ignore_errors=True)

    def prune(self) -> None:
        """Remove checkpoints that the configuration does not keep, and damaged ones older than the newest good one."""
        # Checkpoints after the newest good one are damaged. Training reaches those iterations again and replaces them.
        there = [path for path in step_folders(self.folder) if self.newest is not None and path.name <= self.newest]
        good = [_iteration(path) for path in there if path.name not in self.damaged]
        stays = {step_name(iteration) for iteration in kept(self._config, good)}
        for path in there:
            if path.name not in stays:
                self._remove(path)

    def _remove(self, checkpoint: Path) -> None:
        """Remove a checkpoint. A rename hides it from readers at once."""
        removing = self.folder / ".removing"
        # A file that cannot be removed now (it may be open over NFS) must not end the training. The next call retries.
        shutil.rmtree(removing, ignore_errors=True)
        removing.mkdir(exist_ok=True)
        checkpoint.rename(removing / checkpoint.name)
        shutil.rmtree(removing, ignore_errors=True)


def _iteration(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step"))
