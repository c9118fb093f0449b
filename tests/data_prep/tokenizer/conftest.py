"""Shards of documents and the files that the tokenizer's stages read."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bloomery.base.atomic import write_json
from bloomery.base.digest import document_id
from data_prep.formats.shard import DOCUMENT_SCHEMA, write_table

MakeShard = Callable[[str, dict[str, list[str]]], Path]


@pytest.fixture
def make_shard(tmp_path: Path) -> MakeShard:
    """`make_shard(part, {language: texts})` -> path of a clean shard."""

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
    """`make_mixture({language: weight})` -> path of mixture.json."""

    def make(weights: dict[str, float]) -> Path:
        path = tmp_path / "corpus/mixture.json"
        write_json(path, {"languages": {code: {"weight": weight} for code, weight in weights.items()}})
        return path

    return make
