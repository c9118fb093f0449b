"""Paths of the repository for tests, so that no test depends on its own depth in the tree."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "config/sample"  # Texts of the sample run.
TR11_LOG = ROOT / "tests/data/tr11_main_log.txt"  # Lines of BLOOM-176B's published training log.
