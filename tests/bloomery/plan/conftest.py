"""Shipped presets as configurations."""

from __future__ import annotations

import pytest
from repository import ROOT

from bloomery.config import RunConfig, load_config


@pytest.fixture(scope="session")
def bloom() -> RunConfig:
    """BLOOM-176B."""
    return load_config(ROOT / "config/models/tr11-176b.yaml")
