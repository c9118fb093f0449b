"""Test the amount of text of a source, which is estimated from the beginning of its files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from data_prep.corpus.estimate_text import bytes_per_token, estimate_text_bytes, head_bytes
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


def test_bytes_per_token_are_known_for_the_smallest_and_a_large_vocabulary() -> None:
    assert bytes_per_token(256) == 1
    assert bytes_per_token(250_680) == pytest.approx(4.7)
