"""Fixture for nodes that run as threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_nodes import LocalNodes


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalNodes:
    return LocalNodes(tmp_path / "run", monkeypatch)
