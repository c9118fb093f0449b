"""Test the list of a run's checkpoints."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bloomery.contracts.checkpoint import step_folders


def test_an_unreadable_checkpoint_folder_raises_instead_of_listing_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_folder: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    assert step_folders(tmp_path / "none") == []
    monkeypatch.setattr(os, "scandir", gone)
    with pytest.raises(OSError, match="Stale"):
        step_folders(tmp_path)
