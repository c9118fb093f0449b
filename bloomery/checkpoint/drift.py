"""Define the error for copies of one state that differ although they must be equal, in memory or in a checkpoint."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from bloomery.base.errors import CheckFailedError
from bloomery.checkpoint.files import OTHER_CHECKPOINT


class DriftError(CheckFailedError):
    """Copies of a weight, of its fp32 state or of a random number state differ.

    The state in memory or the checkpoint must not be used. An older checkpoint whose copies are equal can be used.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        nodes: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(what, where=where, expected=expected)
        self.nodes = dict(nodes or {})
        """Node of each rank that may hold a wrong copy. Empty for an error about a checkpoint's files."""


def repair_command(checkpoint: Path | str) -> str:
    """Return the command that repairs a checkpoint. `checkpoint` must be a folder in train/checkpoints of a run."""
    folder = Path(checkpoint)
    run = folder.parent.parent.parent
    return f"bloomery checkpoint repair --run {shlex.quote(str(run))} --checkpoint {folder.name} --on-drift mean-fp32"


def how_to_repair(checkpoint: Path | str) -> str:
    """Return what a user can do if copies in a checkpoint differ, for the end of an error message."""
    return f"{OTHER_CHECKPOINT}; to make the copies in this checkpoint equal, run: {repair_command(checkpoint)}"
