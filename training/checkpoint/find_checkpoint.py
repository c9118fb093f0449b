"""Find the newest checkpoint whose files match its manifest. The ranks divide the files among them for hashing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch.distributed as dist

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.progress import say
from bloomery.contracts.checkpoint import (
    CheckpointManifest,
    read_checkpoint,
    step_folders,
    step_name,
    verify_file,
)
from training.checkpoint.collective_calls import from_every_rank, from_rank_0


@dataclass(frozen=True)
class Found:
    """Result of the search in a folder of checkpoints."""

    manifest: CheckpointManifest | None
    """Manifest of the newest good checkpoint. None if this training has no checkpoint yet."""
    damaged: frozenset[str]
    """Names of the damaged checkpoints that were skipped."""


def newest_good(folder: Path, wanted: Callable[[CheckpointManifest], bool]) -> Found:
    """Find the newest complete checkpoint whose manifest `wanted` accepts. Collective.

    `wanted` is called on rank 0. Damaged checkpoints are skipped and reported on stderr.

    Raises:
        CheckFailedError: no good checkpoint is left and at least one is damaged. A training that took weeks must not
            start from the beginning without a person's decision.
        ResourceError, TryAgainError: a file cannot be read at the moment. This does not count as damage, because
            resuming from an older checkpoint would lose work.
    """
    names = from_rank_0(lambda: [candidate.name for candidate in step_folders(folder)])
    damaged: list[str] = []
    for name in names:
        manifest, problem = from_rank_0(partial(_read, folder / name))
        if manifest is not None:
            if not from_rank_0(partial(wanted, manifest)):
                continue
            problems = from_every_rank(partial(_verify_share, folder / name, manifest))
            problem = next(filter(None, problems), None)
            if problem is None:
                return Found(manifest, frozenset(damaged))
        if dist.get_rank() == 0:
            say(f"checkpoint {name} is skipped, because it is damaged: {problem}")
        damaged.append(name)
    if damaged:
        raise CheckFailedError(
            f"every checkpoint is damaged ({', '.join(damaged)})",
            where=str(folder),
            expected="an undamaged copy of one of them; or move the folder away to train from the beginning",
        )
    return Found(None, frozenset())


def _read(folder: Path) -> tuple[CheckpointManifest | None, str | None]:
    """Return a checkpoint's manifest, or a description of what is wrong with it."""
    try:
        manifest = read_checkpoint(folder)
    except InputError as error:
        return None, str(error)
    if folder.name != step_name(manifest.iteration):
        return None, f"the manifest in this folder belongs to {step_name(manifest.iteration)}"
    return manifest, None


def _verify_share(folder: Path, manifest: CheckpointManifest) -> str | None:
    """Compare this rank's share of the files with the manifest. Files are distributed over the ranks by size.

    Returns:
        A description of the first mismatch, or None if all files match.

    Raises:
        OSError: a file cannot be read.
    """
    by_size = sorted(manifest.files, key=lambda name: (-manifest.files[name].bytes, name))
    try:
        for name in by_size[dist.get_rank() :: dist.get_world_size()]:
            verify_file(folder, manifest, name)
    except CheckFailedError as error:
        return str(error)
    return None
