"""Fixtures of the tests of the export."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from fabricated_export import FabricatedRun
from fabricated_export import fabricate as fabricate_in


@pytest.fixture
def fabricate(tmp_path: Path) -> Callable[..., FabricatedRun]:
    """Return the function `fabricate(tensor=2, pipeline=2, layers=2, ...)`, which makes a finished run."""
    return partial(fabricate_in, tmp_path)
