"""Find real text for tests in the folder that BLOOMERY_CORPUS names, or in ../shared/corpus beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("BLOOMERY_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))


def corpus_files(*languages: str) -> list[Path]:
    """Return `<language>.jsonl.zst` of each language, or all such files by default. Skip the test if one is missing."""
    found = [FOLDER / f"{code}.jsonl.zst" for code in languages] or sorted(FOLDER.glob("*.jsonl.zst"))
    if not found or not all(path.is_file() for path in found):
        pytest.skip("no real text: set BLOOMERY_CORPUS to a folder of <language>.jsonl.zst")
    return found
