"""Fixtures that make planted tokenizers, counts of shards, and the report that `bloomery tokenizer report` writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bloomery.config.stages import CountStage
from data_prep.tokenizer.cli import app
from data_prep.tokenizer.count_pre_tokens import count_shards
from data_prep.tokenizer.pre_tokenizer import build
from data_prep.tokenizer.vocabulary import build_tokenizer, byte_characters, symbol_order


def merges_for(words: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return merges that make each word a token, from left to right. Words with the same beginning share its merges."""
    order, known = symbol_order(), {}
    merges: list[tuple[int, int]] = []
    for word in words:
        data = word.encode()
        left = int(order[data[0]])
        for end in range(2, len(data) + 1):
            if data[:end] not in known:
                merges.append((left, int(order[data[end - 1]])))
                known[data[:end]] = 255 + len(merges)
            left = known[data[:end]]
    return np.array(merges, np.int32).reshape(-1, 2)


@pytest.fixture
def plant(tmp_path: Path) -> Callable[..., Path]:
    """Return `make(words, extra=[...])`, which writes a tokenizer.json with these tokens and no merges for `extra`."""

    def make(words: Sequence[str], *, extra: Sequence[str] = (), reserved: int = 0, name: str = "tokenizer") -> Path:
        value = json.loads(build_tokenizer(merges_for(words), reserved, build("bloom")).to_str())
        vocabulary = value["model"]["vocab"]
        characters = byte_characters()
        for word in extra:
            vocabulary["".join(characters[byte] for byte in word.encode())] = len(vocabulary)
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(value))
        return path

    return make


@pytest.fixture
def make_counts(tmp_path: Path) -> Callable[..., Path]:
    """Return `make(*shards)`, which writes a count table for each shard and returns their folder."""

    def make(*shards: Path, pre_tokenizer: str = "bloom") -> Path:
        for shard in shards:
            output = tmp_path / "counts" / f"{shard.stem}.parquet"
            count_shards(CountStage(pre_tokenizer=pre_tokenizer), [shard], output)
        return tmp_path / "counts"

    return make


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return `run(tokenizer, *options)`, which reports on the shards of `make_shard` and returns the JSON."""

    def run(tokenizer: Path, *options: object, settings: dict[str, Any] | None = None) -> dict[str, Any]:
        config = tmp_path / "tokenizer_report.json"
        config.write_text(json.dumps({"report": settings or {}}))
        result = CliRunner().invoke(
            app,
            ["report", "--tokenizer", str(tokenizer), "--corpus", str(tmp_path / "corpus"), "--config", str(config),
             "--output", str(tmp_path / "out"),
             *map(str, options)],
            catch_exceptions=False,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads((tmp_path / "out/tokenizer.json").read_text())
        return found

    return run
