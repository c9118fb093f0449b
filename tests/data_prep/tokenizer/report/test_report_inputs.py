"""Test the search for the files that a report reads."""

from __future__ import annotations

import pytest

from bloomery.base.errors import InputError
from data_prep.tokenizer.report.report_inputs import find_shards


def test_shards_are_found_in_a_corpus_in_a_folder_or_by_their_paths(make_shard, tmp_path):
    shard = make_shard("s/00000", {"en": ["a"]})
    assert find_shards([tmp_path / "corpus"]) == {"s/00000": shard}
    assert find_shards([tmp_path / "corpus/clean/s"]) == {"00000": shard}
    assert list(find_shards([shard]).values()) == [shard]
    assert find_shards([tmp_path / "corpus"], ["s/00001"]) == {"s/00001": tmp_path / "corpus/clean/s/00001.parquet"}
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no shards"):
        find_shards([tmp_path / "empty"])
