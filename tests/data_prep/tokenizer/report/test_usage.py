"""Test the report on a whole vocabulary: usage, tokens that are never used, and planted mistakes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from data_prep.tokenizer.find_count_tables import find_tables
from data_prep.tokenizer.report.counts import Counts
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer
from data_prep.tokenizer.report.usage import covering, usage_of_counts, used_in_one

TEXTS = {"en": ["the other the  </s> then", "the café"], "fr": ["le thé , le", "abc" * 50], "hi": ["के लिए के"]}


def listed(entry: dict | list) -> set[str]:
    return {token["text"] for token in (entry["listed"] if isinstance(entry, dict) else entry)}


def test_usage_by_counts_equals_usage_in_the_whole_text(plant, make_shard, make_counts, tmp_path):
    shards = [make_shard("s/00000", TEXTS), make_shard("s/00001", {"en": ["the", "abc the"]})]
    path = plant([" the", "the", " के", "bc"])
    counts = Counts.read(find_tables([make_counts(*shards)]), tmp_path / "sums")
    found = usage_of_counts(ReportedTokenizer.load(path), counts)
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    texts = {**TEXTS, "en": [*TEXTS["en"], "the", "abc the"]}
    for language, of_language in texts.items():
        expected = Counter(token for text in of_language for token in tokenizer.encode(text).ids)
        assert {int(token): int(found[language][token]) for token in np.flatnonzero(found[language])} == expected


def test_usage_comes_from_counts_of_the_corpus_or_else_from_the_sample(plant, make_shard, make_counts, report):
    shard = make_shard("s/00000", TEXTS)
    path = plant([" the", "the"])
    by_counts = report(path, "--counts", make_counts(shard))
    by_sample = report(path)
    assert (by_counts["usage_from"], by_sample["usage_from"]) == ("counts", "sample")
    # In this test, the sample is the whole corpus.
    assert by_counts["vocabulary_facts"] == by_sample["vocabulary_facts"]


def test_counts_of_another_pre_tokenizer_are_not_used(plant, make_shard, make_counts, report):
    counts = make_counts(make_shard("s/00000", TEXTS), pre_tokenizer="modern")
    found = report(plant([" the"]), "--counts", counts)
    assert found["usage_from"] == "sample"
    assert found["languages"]["en"]["monolingual"] is None


def test_never_used_tokens_are_listed_by_reason(plant, make_shard, report):
    make_shard("s/00000", {"en": ["the other"]})
    facts = report(plant(["the", "xyz"], reserved=3))["vocabulary_facts"]
    never = facts["never_used"]
    # `th` occurs only inside `the`. `xy` and `xyz` do not occur.
    assert listed(never["listed"]["inside"]) == {"th"}
    assert listed(never["listed"]["absent"]) == {"xy", "xyz"}
    assert never["kinds"] == {"inside": 1, "absent": 2, "byte": 256 - len(set("o r"))}
    assert (facts["tokens"], facts["special"]) == (260, 7)
    assert never["tokens"] == sum(never["kinds"].values())
    assert never["share"] == pytest.approx(never["tokens"] / 260, abs=1e-6)


def test_a_planted_token_that_no_merge_makes_is_found(plant, make_shard, report):
    make_shard("s/00000", {"en": ["zqj zqj the"]})
    facts = report(plant(["the"], extra=["zqj"]))["vocabulary_facts"]
    assert listed(facts["glitches"]["unreachable"]) == {"zqj"}
    assert "zqj" in listed(facts["never_used"]["listed"]["absent"])


def test_addresses_runs_long_tokens_rare_tokens_and_families_are_found(plant, make_shard, report):
    address, run, long = "https://www", "=" * 9, "Donaudampfschifffahrtsgesellschaft"
    forms = [f"copyright20{number}reserved" for number in range(10, 15)]
    make_shard("s/00000", {"en": [" ".join([address, run, long, *forms, *["the"] * 12])]})
    facts = report(plant([address, run, long, "the", *forms]))["vocabulary_facts"]
    glitches = facts["glitches"]
    assert address in listed(glitches["url"])
    assert listed(glitches["run"]) == {"=" * 8, run}
    assert long in listed(glitches["long"])
    assert long in listed(glitches["rare"])
    assert "the" not in listed(glitches["rare"])
    assert set(forms[:1]) < {token["text"] for family in facts["families"] for token in family["listed"]} | set(forms)
    assert facts["longest"][0]["text"] == long
    assert facts["lengths"][len(long)] == 1


def test_parts_of_characters_are_counted_and_shown_as_bytes(plant, make_shard, report):
    make_shard("s/00000", {"hi": ["के"]})
    facts = report(plant(["क"]))["vocabulary_facts"]
    assert facts["fragments"] == 1
    assert {"id": facts["never_used"]["listed"]["inside"][0]["id"], "text": None, "used": 0, "bytes": "E0 A4"} in (
        facts["never_used"]["listed"]["inside"]
    )
    assert facts["scripts"]["parts of characters"] == {"tokens": 1, "used": 0}
    assert facts["scripts"]["Devanagari"] == {"tokens": 1, "used": 1}


def test_tokens_of_one_language_and_tokens_that_cover_its_text_are_counted():
    one, other = np.array([90, 9, 1, 0, 0]), np.array([5, 0, 0, 5, 0])
    assert used_in_one([one, other]) == [2, 1]
    assert covering(one) == 2
    assert covering(np.zeros(5, np.int64)) == 0
    assert used_in_one([]) == []


def test_the_usage_of_several_tables_is_summed(plant, make_shard, make_counts, tmp_path: Path):
    shards = [make_shard(f"s/{number:05d}", TEXTS) for number in range(3)]
    subject = ReportedTokenizer.load(plant([" the"]))
    three = usage_of_counts(subject, Counts.read(find_tables([make_counts(*shards)]), tmp_path / "three"))
    one = usage_of_counts(subject, Counts.read(find_tables([tmp_path / "counts/00000.parquet"]), tmp_path / "one"))
    assert {code: usage.tolist() for code, usage in three.items()} == {
        code: (3 * usage).tolist() for code, usage in one.items()
    }


def test_the_usage_of_another_kind_of_tokenizer_comes_from_the_sample(make_shard, make_counts, report, tmp_path):
    words = {"[UNK]": 0, "the": 1, "th": 2, "##ing": 3, "zzz": 4}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[UNK]"])
    tokenizer.save(str(tmp_path / "piece.json"))
    counts = make_counts(make_shard("s/00000", {"en": ["the thing"]}))
    found = report(tmp_path / "piece.json", "--counts", counts)
    facts = found["vocabulary_facts"]
    assert (found["usage_from"], found["languages"]["en"]["tokens"]) == ("sample", 3)
    assert found["languages"]["en"]["monolingual"] is None
    assert listed(facts["never_used"]["listed"]["absent"]) == {"zzz"}
    assert {token["text"] for token in facts["longest"]} == {"the", "th", "ing", "zzz"}
    assert "unreachable" not in facts["glitches"]
    assert "unreachable" not in (tmp_path / "out/tokenizer.html").read_text()
