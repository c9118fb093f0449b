"""Test the tokenizers that are trained on one language for comparison."""

from __future__ import annotations

from sentences import texts

from data_prep.tokenizer.find_count_tables import find_tables
from data_prep.tokenizer.report import counts as counts_module
from data_prep.tokenizer.report.monolingual import monolingual_size, train_monolingual
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer


def test_a_monolingual_tokenizer_encodes_like_the_library(plant, make_shard, make_counts, tmp_path):
    shard = make_shard("s/00000", {"en": texts("en", 40)})
    counts = counts_module.Counts.read(find_tables([make_counts(shard)]), tmp_path / "sums")
    own = train_monolingual(ReportedTokenizer.load(plant([" the"])), counts.by_language()["en"], 400)
    of_language = texts("en", 40)
    own.tokenizer.encode_special_tokens = True
    expected = [token for text in of_language for token in own.tokenizer.encode(text).ids]
    assert own.encoder.encode(of_language)[0].tolist() == expected
    assert len(expected) < sum(map(len, of_language)), "the tokenizer has merges"


def test_the_monolingual_size_is_limited_by_setting_shared_tokenizer_and_text():
    assert monolingual_size(32_768, 250_680, 10**6) == 32_768
    assert monolingual_size(32_768, 2_048, 10**6) == 2_048
    assert monolingual_size(32_768, 250_680, 44) == 300
