"""Find and load the newest good checkpoint. The ranks divide the files among them for hashing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch.distributed as dist

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.progress import say
from bloomery.checkpoint.drift import repair_command
from bloomery.contracts.checkpoint import (
    CheckpointManifest,
    mark_damaged,
    read_checkpoint,
    step_folders,
    step_name,
    verify_file,
)
from training.checkpoint.collective_calls import damage_on_any_rank, from_rank_0


@dataclass(frozen=True)
class Found:
    """Result of the search in a folder of checkpoints."""

    manifest: CheckpointManifest | None
    """Manifest of the newest good checkpoint. None if this training has no checkpoint yet."""
    damaged: dict[str, str]
    """Problem of each damaged checkpoint that was skipped, by the checkpoint's name, newest first."""


def newest_good(
    folder: Path,
    wanted: Callable[[CheckpointManifest], bool],
    load: Callable[[CheckpointManifest], str | None],
) -> Found:
    """Find and load the newest good checkpoint whose manifest `wanted` accepts. Collective.

    For each checkpoint, newest first, this function reads the manifest, compares all files with the manifest, and loads
    the checkpoint. A damaged checkpoint is reported on stderr, and the checkpoint before it is tried. After an older
    checkpoint is loaded, damaged checkpoints that have a readable manifest are marked
    (`bloomery.contracts.checkpoint.mark_damaged`). So the next start does not read them again, and code that reads only
    manifests finds the newest good checkpoint, too.

    Args:
        folder: folder of the checkpoints.
        wanted: function that tells whether a checkpoint belongs to this training. It is called on rank 0.
        load: collective function that loads a checkpoint whose files match its manifest. It returns what is damaged,
            equal on every rank, or None if the checkpoint is good. After damage, the state is undefined until another
            checkpoint is loaded.

    Raises:
        CheckFailedError: no good checkpoint is left and at least one is damaged. A training that took weeks must not
            start from the beginning without a person's decision.
        ResourceError, TryAgainError: a file cannot be read at the moment. This does not count as damage, because
            resuming from an older checkpoint would lose work.
        BloomeryError: `load` raised this error, because the configuration does not fit the checkpoint.
    """
    names = from_rank_0(lambda: [candidate.name for candidate in step_folders(folder)])
    damaged: dict[str, str] = {}
    unloadable: dict[str, str] = {}
    for name in names:
        manifest, problem = from_rank_0(partial(_read, folder / name))
        if manifest is not None:
            if not from_rank_0(partial(wanted, manifest)):
                continue
            problem = damage_on_any_rank(partial(verify_share, folder / name, manifest)) or load(manifest)
            if problem is None:
                from_rank_0(partial(_mark, folder, unloadable))
                return Found(manifest, damaged)
            unloadable[name] = problem
        if dist.get_rank() == 0:
            say(f"checkpoint {name} is skipped, because it is damaged: {problem}")
        damaged[name] = str(problem)
    if damaged:
        name, problem = next(iter(damaged.items()))
        commands = [repair_command(folder / each) for each in damaged]
        # If copies in a checkpoint differ, its problem names the command that repairs it.
        repairable = [each for each, text in zip(commands, damaged.values(), strict=True) if each in text]
        how_to_repair = (
            f"a checkpoint with equal copies (to make them equal, run: {repairable[0]}); or " if repairable else ""
        )
        raise CheckFailedError(
            f"every checkpoint is damaged ({', '.join(damaged)}); the newest one, {name}: {problem}",
            where=str(folder),
            expected=f"{how_to_repair}one undamaged checkpoint, restored from a backup; or move the folder away to "
            "train from the beginning",
        )
    return Found(None, {})


def _mark(folder: Path, problems: dict[str, str]) -> None:
    """Mark checkpoints as damaged. A checkpoint without a readable manifest needs no mark."""
    for name, problem in problems.items():
        mark_damaged(folder / name, problem)


def _read(folder: Path) -> tuple[CheckpointManifest | None, str | None]:
    """Return a checkpoint's manifest, or a description of what is wrong with it."""
    try:
        manifest = read_checkpoint(folder)
    except InputError as error:
        return None, str(error)
    if folder.name != step_name(manifest.iteration):
        return None, f"the manifest in this folder belongs to {step_name(manifest.iteration)}"
    return manifest, None


def verify_share(folder: Path, manifest: CheckpointManifest) -> None:
    """Compare this rank's share of the files with the manifest. Files are distributed over the ranks by size.

    Raises:
        CheckFailedError: a file does not match.
        OSError: a file cannot be read.
    """
    by_size = sorted(manifest.files, key=lambda name: (-manifest.files[name].bytes, name))
    for name in by_size[dist.get_rank() :: dist.get_world_size()]:
        verify_file(folder, manifest, name)
