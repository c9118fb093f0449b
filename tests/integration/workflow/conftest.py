"""Fixture that makes new runs for tests that disturb them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from workflow_support import TINY, Workflow


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[..., Workflow]:
    """Return a function that makes a workflow in the test's folder."""
    return lambda config=TINY: Workflow(tmp_path, copy.deepcopy(config))
