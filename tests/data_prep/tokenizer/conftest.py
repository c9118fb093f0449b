"""Fixtures that make shards of documents and the other files that the tokenizer's stages read."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tokenizer_training import train_tokenizer
from trained_texts import TEXTS, WEIGHTS

from bloomery.base.atomic import write_json
from bloomery.base.digest import document_id
from bloomery.config.stages import CountStage, TokenizerStage
from bloomery.config.tokens import TokenizerConfig
from data_prep.formats.shard import DOCUMENT_SCHEMA, write_table
from data_prep.tokenizer.count_pre_tokens import count_shards

MakeShard = Callable[[str, dict[str, list[str]]], Path]


@pytest.fixture
def make_shard(tmp_path: Path) -> MakeShard:
    """Return `make(part, {language: texts})`, which writes a clean shard and returns its path."""

    def make(part: str, texts: dict[str, list[str]]) -> Path:
        path = tmp_path / f"corpus/clean/{part}.parquet"
        rows = sorted(
            (document_id("s", f"{part}{language}{number}"), "s", language, text, "")
            for language, of_language in texts.items()
            for number, text in enumerate(of_language)
        )
        columns = list(zip(*rows, strict=True)) or [()] * len(DOCUMENT_SCHEMA)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, DOCUMENT_SCHEMA, strict=True)]
        write_table(path, pa.table(arrays, schema=DOCUMENT_SCHEMA), kind="documents", inputs={}, parameters="")
        return path

    return make


@pytest.fixture
def make_mixture(tmp_path: Path) -> Callable[[dict[str, float]], Path]:
    """Return `make({language: weight})`, which writes mixture.json and returns its path."""

    def make(weights: dict[str, float]) -> Path:
        path = tmp_path / "corpus/mixture.json"
        write_json(path, {"languages": {code: {"weight": weight} for code, weight in weights.items()}})
        return path

    return make


@pytest.fixture
def train(make_shard, make_mixture, tmp_path):
    """Return `run(name, parts, weights, **settings)`, which trains a tokenizer and returns its folder."""

    def run(name="tokenizer", parts=None, weights=WEIGHTS, **settings):
        parts = parts or {"s/00000": TEXTS}
        for part, texts in parts.items():
            counts = tmp_path / f"counts/{part}.parquet"
            count_shards(CountStage(pre_tokenizer="bloom"), [make_shard(part, texts)], counts)
        config = TokenizerConfig.model_validate({"vocabulary_size": 340, "reserved_tokens": 3} | settings)
        folder = tmp_path / name
        train_tokenizer(
            TokenizerStage(tokenizer=config),
            tmp_path / "counts",
            list(parts),
            make_mixture(weights),
            folder / "tokenizer.json",
        )
        return folder

    return run
