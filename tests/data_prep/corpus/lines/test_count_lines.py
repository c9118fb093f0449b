"""Test how many documents are counted for a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from repeated_lines import MENU, NOTICE, article, run

from data_prep.corpus.lines import count_lines, find_repeated_lines


def test_a_line_in_very_many_documents_does_not_fill_the_memory() -> None:
    often, rare = 1000, np.repeat(np.arange(500, dtype=np.uint64), 4)
    lines = np.full(100_000, often, np.uint64)
    lines[::50] = rare
    contents = np.random.default_rng(1).permutation(len(lines)).astype(np.uint32)
    held = find_repeated_lines.Records(5, 1000)
    for start in range(0, len(lines), 500):
        columns = [pa.array(lines[start : start + 500]), pa.array(contents[start : start + 500])]
        held.add(pa.table(columns, schema=count_lines.LINES_SCHEMA))
        assert held.rows <= 2 * len(rare)
    assert held.repeated().tolist() == [often]


def test_a_line_counts_once_per_document_within_its_source_and_language(tmp_path: Path) -> None:
    often = "\n".join([NOTICE] * 9)
    shards = {
        "a/00000": [("a0", "en", article("a0", NOTICE)), ("a1", "fr", article("a1", NOTICE)), ("a2", "en", often)],
        "b/00000": [("b0", "en", article("b0", NOTICE)), ("b1", "en", article("b1", MENU))],
    }
    assert run(tmp_path / "a", shards, least=3) == {
        key: (language, text) for rows in shards.values() for key, language, text in rows
    }
    found = run(tmp_path / "b", shards, least={"a": 2, "b": 3})
    assert found["a0"] == ("en", article("a0"))
    assert found["a1"] == ("fr", article("a1", NOTICE))
    assert found["a2"] == ("en", "")
    assert found["b0"] == ("en", article("b0", NOTICE))
