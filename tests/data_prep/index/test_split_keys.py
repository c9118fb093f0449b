"""Test the keys that assign documents to training or validation."""

import pyarrow as pa
import pytest

from data_prep.corpus.dedup.resolve import SURVIVOR_SCHEMA
from data_prep.formats.shard import write_table
from data_prep.index.split_keys import clusters_of, id_hashes, split_keys

A, B, C = "a" * 32, "b" * 32, "c" * 32


@pytest.fixture
def survivors(tmp_path):
    rows = [("s/00000", A, A), ("s/00000", B, A), ("s/00001", C, A)]
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=SURVIVOR_SCHEMA)
    path = tmp_path / "survivors-0.parquet"
    spans = {"s/00000": [0, 2], "s/00001": [2, 3]}
    write_table(path, table, kind="survivors", inputs={}, parameters="", counts={"spans": spans})
    return [path]


def test_documents_of_one_cluster_have_the_same_key_in_every_shard(survivors):
    first, second = clusters_of(survivors, "s/00000"), clusters_of(survivors, "s/00001")
    assert first == {A: A, B: A}
    assert second == {C: A}
    assert clusters_of(survivors, "other/00000") == {}
    others = "d" * 32
    keys = split_keys(pa.array([A, B, others]), first).tolist() + split_keys(pa.array([C]), second).tolist()
    assert keys == [int(text[:16], 16) for text in (A, A, others, A)]


def test_without_clusters_a_key_is_the_id_itself():
    ids = pa.array([A, B, C])
    assert split_keys(ids, {}).tolist() == id_hashes(ids).tolist()
