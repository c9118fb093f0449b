"""The list of a run's checkpoints."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bloomery.contracts.checkpoint import step_folders


def test_checkpoints_that_cannot_be_listed_are_not_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_folder: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    assert step_folders(tmp_path / "none") == []
    monkeypatch.setattr(os, "scandir", gone)
    with pytest.raises(OSError, match="Stale"):
        step_folders(tmp_path)
