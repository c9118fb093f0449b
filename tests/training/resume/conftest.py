"""Provide a run with checkpoints after iterations 2, 4 and 6."""

from __future__ import annotations

from pathlib import Path

import pytest
from three_checkpoints import make_three_checkpoints

from bloomery.contracts.paths import RunPaths


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """Make the run."""
    return make_three_checkpoints(tmp_path)
