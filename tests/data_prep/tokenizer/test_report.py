"""Fertility report: figures by hand, sample fixed, page self-contained."""

import re

import numpy as np
import pytest

from data_prep.tokenizer import sample
from data_prep.tokenizer.page import render
from data_prep.tokenizer.pre_tokenizer import BLOOM_PATTERN
from data_prep.tokenizer.report import fertility_report
from data_prep.tokenizer.sample import sample_documents
from data_prep.tokenizer.vocabulary import build_tokenizer, symbol_order


@pytest.fixture
def tokenizer(tmp_path):
    """Bytes and the one merge `ab`."""
    order = symbol_order()
    merges = np.array([[order[ord("a")], order[ord("b")]]], np.int32)
    path = tmp_path / "tokenizer.json"
    path.write_text(build_tokenizer(merges, 0, BLOOM_PATTERN).to_str())
    return path


def test_figures_are_those_counted_by_hand(tokenizer, make_shard, tmp_path):
    make_shard("s/00000", {"en": ["abab ab"], "fr": ["é, a"]})
    report = fertility_report(tokenizer, tmp_path / "corpus/clean", ["s/00000"])
    english, french = report["languages"]["en"], report["languages"]["fr"]
    assert report["reference"] == "en"
    assert report["vocabulary"] == 261
    # "abab ab": ab ab, space, ab: 4 tokens, 7 bytes, 2 words, 1 single byte
    assert (english["tokens"], english["bytes"], english["words"], english["single_byte_tokens"]) == (4, 7, 2, 1)
    assert (english["tokens_per_word"], english["bytes_per_token"], english["parity"]) == (2.0, 1.75, 1.0)
    # "é, a": two bytes, comma, space, a: 5 tokens of 5 bytes, 4 characters, 2 words
    assert (french["tokens"], french["characters"], french["words"], french["single_byte_share"]) == (5, 4, 2, 1.0)
    assert french["parity"] == 1.75


def test_without_english_the_language_with_most_text_is_the_reference(tokenizer, make_shard, tmp_path):
    make_shard("s/00000", {"fr": ["ab"], "es": ["abab", "x"]})
    assert fertility_report(tokenizer, tmp_path / "corpus/clean", ["s/00000"])["reference"] == "es"


def test_an_empty_corpus_gives_an_empty_report(tokenizer, make_shard, tmp_path):
    make_shard("s/00000", {})
    report = fertility_report(tokenizer, tmp_path / "corpus/clean", ["s/00000"])
    assert report["languages"] == {}
    assert "0 languages" in render(report)


def test_the_sample_is_bounded_and_fixed(make_shard, tmp_path, monkeypatch):
    parts = [f"s/{number:05d}" for number in range(4)]
    for part in parts:
        make_shard(part, {"en": [f"{part} {number}" for number in range(10)], "fr": ["x" * 100]})
    monkeypatch.setattr(sample, "PER_PART", 3)
    monkeypatch.setattr(sample, "PER_LANGUAGE", 8)
    monkeypatch.setattr(sample, "LANGUAGE_BYTES", 150)
    found = sample_documents(tmp_path / "corpus/clean", parts)
    assert {language: len(texts) for language, texts in found.items()} == {"en": 8, "fr": 2}
    assert found == sample_documents(tmp_path / "corpus/clean", parts[::-1])


def test_the_page_stands_alone_and_escapes(tokenizer, make_shard, tmp_path):
    make_shard("s/00000", {"en": ["ab cd"], "<b>": ["ab"], "zhs": ["人人"]})
    page = render(fertility_report(tokenizer, tmp_path / "corpus/clean", ["s/00000"]))
    assert page.count("<svg") == 4
    assert "<b>:" not in page
    assert "&lt;b&gt;" in page
    assert not re.search(r"(src|href)=|<script|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page
