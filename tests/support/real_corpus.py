"""Real text for tests that need it: the folder that BLOOMERY_CORPUS names, else ../shared/corpus beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("BLOOMERY_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))


def corpus_files(*languages: str) -> list[Path]:
    """`<language>.jsonl.zst` of these languages, of all that are there without any; skips where there are none."""
    found = [FOLDER / f"{code}.jsonl.zst" for code in languages] or sorted(FOLDER.glob("*.jsonl.zst"))
    if not found or not all(path.is_file() for path in found):
        pytest.skip("no real text: set BLOOMERY_CORPUS to a folder of <language>.jsonl.zst")
    return found
