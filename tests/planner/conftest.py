"""Provide a configuration whose trainings are simulated."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from repository import ROOT
from simulated_run import FAULTS


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """Write the sample's YAML, changed to a training of 20 hours."""
    raw = yaml.safe_load((ROOT / "config/sample.yaml").read_text())
    raw["training"]["segment"] = {}
    raw["plan"] = {"gpu": "a100-80gb", "tflops_hardware": 2e-5, "save_seconds": 20.0, "faults": dict(FAULTS)}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path
