"""Counts of a shard."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bloomery.base.digest import digest_file
from bloomery.config.stages import CountStage
from bloomery.contracts.shard import read_manifest, read_table
from data_prep.tokenizer.count import count_shard
from data_prep.tokenizer.pre_tokenizer import split

STAGE = CountStage(pre_tokenizer="bloom")
TEXTS = st.dictionaries(st.sampled_from(["en", "fr", "zhs"]), st.lists(st.text("ab é人.\n", max_size=20), max_size=4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(TEXTS)
def test_counts_are_those_of_each_language_sorted(make_shard, tmp_path, texts):
    count_shard(STAGE, make_shard("s/00000", texts), tmp_path / "counts.parquet")
    rows = read_table(tmp_path / "counts.parquet").to_pylist()
    wanted = Counter((language, piece) for language, of in texts.items() for text in of for piece in split(text))
    assert {(row["language"], row["piece"]): row["count"] for row in rows} == wanted
    keys = [(row["language"], row["piece"].encode()) for row in rows]
    assert keys == sorted(set(keys))


def test_the_manifest_says_what_was_counted(make_shard, tmp_path):
    shard = make_shard("s/00000", {"en": ["a b a", "c"], "fr": ["d"]})
    count_shard(STAGE, shard, tmp_path / "counts.parquet")
    manifest = read_manifest(tmp_path / "counts.parquet")
    assert manifest["inputs"] == {"clean": digest_file(shard)}
    assert manifest["counts"] == {"pre_tokens": {"en": 4, "fr": 1}}


def test_an_empty_shard_gives_an_empty_table(make_shard, tmp_path):
    count_shard(STAGE, make_shard("s/00000", {}), tmp_path / "counts.parquet")
    assert read_table(tmp_path / "counts.parquet").num_rows == 0
