"""Test the amount of text of a source, which is estimated from the beginning of its files."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from data_prep.corpus.estimate_text import estimate_documents, estimate_text_bytes, head_bytes
from data_prep.new_run.guess_source import guess_source

ROWS = [{"text": f"numéro {n} " * 20, "lang": "fr", "id": n} for n in range(3000)]
TEXT_BYTES = sum(len(row["text"].encode()) for row in ROWS)
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_the_estimate_is_near_the_text_of_all_rows(tmp_path: Path, ending: str) -> None:
    packed = {"jsonl": LINES, "jsonl.gz": gzip.compress(LINES), "jsonl.zst": zstandard.compress(LINES)}[ending]
    (tmp_path / f"a.{ending}").write_bytes(packed)
    _, sample = guess_source(str(tmp_path / f"a.{ending}"), "s")
    assert not sample.complete
    assert estimate_text_bytes(sample) == pytest.approx(TEXT_BYTES, rel=0.1)


def test_a_source_that_was_read_whole_needs_no_estimate(tmp_path: Path) -> None:
    (tmp_path / "fr.jsonl").write_text('{"text": "é"}\n')
    _, sample = guess_source(str(tmp_path / "fr.jsonl"), "s")
    assert estimate_text_bytes(sample) == 2


@pytest.mark.parametrize("name", ["a.zst", "a.gz"])
def test_a_damaged_file_counts_as_not_compressed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not compressed")
    assert head_bytes(tmp_path / name) == len(b"not compressed")


def test_the_number_of_documents_follows_from_the_rows_that_were_read(tmp_path: Path) -> None:
    (tmp_path / "fr.jsonl").write_text('{"text": "un deux trois"}\n' * 500)
    _, whole = guess_source(str(tmp_path / "fr.jsonl"), "s")
    assert estimate_documents(whole) == 500
    read = {field: values[:100] for field, values in whole.values.items()}
    first = replace(whole, complete=False, rows=100, sizes=whole.sizes[:100], values=read)
    assert estimate_documents(first) == pytest.approx(500, rel=0.15)
