"""Shipped presets as configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.checks.validate import load_config
from bloomery.config.run import RunConfig

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def bloom() -> RunConfig:
    """BLOOM-176B."""
    return load_config(ROOT / "config/models/tr11-176b.yaml")
