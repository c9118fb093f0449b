"""Keep the index that an unfinished training reads.

A new index replaces the previous one, even while a training of an earlier workflow runs on another node. So each
segment first makes the link `results/index/training`, which leads to the folder of the index that it opens. A result
that such a link leads to is not removed. The link moves when the next segment opens a newer index, and it is removed
when the training is finished.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from bloomery.base.errors import TryAgainError
from bloomery.base.links import link_atomically
from bloomery.contracts.index_manifest import resolve_index
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, locked, remove_unused

_READER = "training"
_MOST_TRIES = 10


def hold_index(paths: RunPaths) -> Path:
    """Return the folder of the run's newest index, which is now kept until the training releases it.

    An index that is not a result of the workflow is neither linked nor kept.

    Raises:
        TryAgainError: a new index replaced the newest one repeatedly.
        OSError, ResourceError: the folder of the results cannot be changed.
    """
    place = _place(paths)
    for _ in range(_MOST_TRIES):
        folder = resolve_index(paths.index)
        if folder.parent != place.folder.resolve():
            return folder
        link_atomically(place.folder / _READER, folder.name)
        # If the documented links still lead to this folder, the new link was made in time: every later build of the
        # index finds it and keeps the folder.
        if resolve_index(paths.index) == folder:
            _remove_unused(place)
            return folder
    raise TryAgainError(
        "the index was replaced repeatedly while it was opened",
        where=str(paths.index_manifest),
        expected="no build of the index at the same time; wait until the build ends, and run the command again",
    )


def release_index(paths: RunPaths) -> None:
    """Remove the link `training`, and remove the older index that only this link protected."""
    place = _place(paths)
    link = place.folder / _READER
    if link.is_symlink():
        link.unlink()
        _remove_unused(place)


def _place(paths: RunPaths) -> Place:
    return Place.of(paths.results / "index.json")


def _remove_unused(place: Place) -> None:
    # If another process is writing a new index, that process removes the unused results.
    with contextlib.suppress(TryAgainError), locked(place):
        remove_unused(place)
