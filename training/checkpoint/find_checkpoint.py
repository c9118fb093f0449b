"""Find the newest checkpoint whose files match its manifest; the ranks share the reading."""

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
    """What lies in a folder of checkpoints."""

    manifest: CheckpointManifest | None
    """Of the newest good one; None: there is no checkpoint of this training yet."""
    damaged: frozenset[str]
    """Names of those that were passed over."""


def newest_good(folder: Path, wanted: Callable[[CheckpointManifest], bool]) -> Found:
    """The newest checkpoint that is `wanted` (by rank 0) and whole; damaged ones are named on stderr. Collective.

    Raises:
        CheckFailedError: all of them are damaged: a training that took weeks must not begin again by itself.
        ResourceError, TryAgainError: a file cannot be read here and now. That is no damage: to train on from an
            older checkpoint would lose work, and to find every one damaged would end the training.
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
            say(f"checkpoint {name} is damaged and passed over: {problem}")
        damaged.append(name)
    if damaged:
        raise CheckFailedError(
            f"every checkpoint is damaged ({', '.join(damaged)})",
            where=str(folder),
            expected="a good copy of one of them; or move the folder away to train from the beginning",
        )
    return Found(None, frozenset())


def _read(folder: Path) -> tuple[CheckpointManifest | None, str | None]:
    """A checkpoint's manifest, or what is wrong with it."""
    try:
        manifest = read_checkpoint(folder)
    except InputError as error:
        return None, str(error)
    if folder.name != step_name(manifest.iteration):
        return None, f"its manifest is that of {step_name(manifest.iteration)}"
    return manifest, None


def _verify_share(folder: Path, manifest: CheckpointManifest) -> str | None:
    """Compare this rank's share of the files, distributed by size, with the manifest; what is wrong, if anything.

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
