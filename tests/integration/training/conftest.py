"""Fixture that makes runs to train in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fabricated_training import make_run, stage
from training_launcher import Launcher


@pytest.fixture
def launcher(tmp_path: Path) -> Callable[..., Launcher]:
    """Return a function that makes a run with an index and a stage configuration, and returns its launcher."""

    def make(name: str = "run", seed: int = 1, **values: object) -> Launcher:
        run = tmp_path / name
        return Launcher(run, make_run(run, stage(**values), seed))

    return make
