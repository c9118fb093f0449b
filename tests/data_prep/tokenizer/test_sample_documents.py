"""Test the sample of documents."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomery.base.errors import InputError
from data_prep.tokenizer import sample_documents as sampling
from data_prep.tokenizer.sample_documents import sample_documents


def test_the_sample_is_bounded_and_does_not_depend_on_the_order_of_shards(make_shard, tmp_path, monkeypatch):
    shards = {}
    for part in (f"s/{number:05d}" for number in range(4)):
        shards[part] = make_shard(part, {"en": [f"{part} {number}" for number in range(10)], "fr": ["x" * 100]})
    monkeypatch.setattr(sampling, "PER_PART", 3)
    monkeypatch.setattr(sampling, "PER_LANGUAGE", 8)
    monkeypatch.setattr(sampling, "LANGUAGE_BYTES", 150)
    found = sample_documents(shards)
    assert {language: len(of_language) for language, of_language in found.items()} == {"en": 8, "fr": 2}
    assert found == sample_documents(dict(reversed(shards.items())))


def test_a_foreign_parquet_file_is_sampled_like_a_shard(make_shard, tmp_path, monkeypatch):
    shard = make_shard("s/00000", {"en": [f"text {number}" for number in range(10)], "fr": ["é"]})
    foreign = tmp_path / "texts.parquet"
    pq.write_table(pq.read_table(shard, columns=["text", "id", "language"]), foreign)
    monkeypatch.setattr(sampling, "PER_PART", 3)
    assert sample_documents({"a": foreign}) == sample_documents({"a": shard})
    pq.write_table(pa.table({"id": ["a"], "language": ["en"], "text": pa.array([None], pa.string())}), foreign)
    with pytest.raises(InputError, match="is null"):
        sample_documents({"a": foreign})
    with pytest.raises(InputError, match="no such file"):
        sample_documents({"a": tmp_path / "nowhere.parquet"})
