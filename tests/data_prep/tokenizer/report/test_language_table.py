"""Test the figures per language, also those of reference tokenizers and monolingual tokenizers."""

from __future__ import annotations

import pytest
import regex
from sentences import WORDS, texts
from tokenizers import Tokenizer

from data_prep.tokenizer.report import counts as counts_module


def test_figures_equal_those_counted_by_hand(plant, make_shard, report):
    make_shard("s/00000", {"en": ["abab ab"], "fr": ["é, a"]})
    found = report(plant(["ab"]))
    english, french = found["languages"]["en"], found["languages"]["fr"]
    assert (found["reference"], found["vocabulary"], found["parity_by"]) == ("en", 261, "bytes")
    # "abab ab" has the tokens ab, ab, space, ab: 4 tokens, 7 bytes, 2 words, 1 single byte.
    assert (english["tokens"], english["bytes"], english["words"], english["single_byte_tokens"]) == (4, 7, 2, 1)
    assert (english["tokens_per_word"], english["bytes_per_token"], english["parity"]) == (2.0, 1.75, 1.0)
    # "é, a" has two byte tokens for é, and the tokens comma, space and a: 5 tokens, 5 bytes, 4 characters, 2 words.
    assert (french["tokens"], french["characters"], french["words"], french["single_byte_share"]) == (5, 4, 2, 1.0)
    assert french["parity"] == 1.75


def test_figures_equal_those_of_a_plain_computation(plant, make_shard, report):
    corpus = {language: texts(language) for language in WORDS}
    make_shard("s/00000", corpus)
    own, other = plant([" the", "of", " के", "में", "人这"]), plant([" that", "is"], name="other")
    found = report(own, "--reference", f"other={other}")
    assert found["references"] == {
        "other": {"vocabulary": Tokenizer.from_file(str(other)).get_vocab_size(), "commit": None}
    }
    for language, of_language in corpus.items():
        entry = found["languages"][language]
        for path, figures in ((own, entry), (other, entry["references"]["other"])):
            tokenizer = Tokenizer.from_file(str(path))
            ids = [token for text in of_language for token in tokenizer.encode(text).tokens]
            words = r"[\p{L}\p{N}]" if language == "zhs" else r"[\p{L}\p{M}\p{N}]+"
            number = sum(len(regex.findall(words, text)) for text in of_language)
            size = sum(len(text.encode()) for text in of_language)
            assert figures["tokens"] == len(ids)
            assert figures["tokens_per_word"] == pytest.approx(len(ids) / number, abs=1e-4)
            assert figures["bytes_per_token"] == pytest.approx(size / len(ids), abs=1e-4)
            assert figures["characters_per_token"] == pytest.approx(sum(map(len, of_language)) / len(ids), abs=1e-4)
            assert figures["single_byte_share"] == pytest.approx(
                sum(len(token) == 1 for token in ids) / len(ids), abs=1e-4
            )
        least = entry["references"]["other"]["tokens"]
        assert entry["over_reference"] == pytest.approx(entry["tokens"] / least - 1, abs=1e-4)


def test_without_english_the_language_with_most_text_is_the_reference(plant, make_shard, report):
    make_shard("s/00000", {"fr": ["ab"], "es": ["abab", "x"]})
    assert report(plant(["ab"]))["reference"] == "es"


def test_a_corpus_without_text_gives_a_report_without_languages(plant, make_shard, report):
    make_shard("s/00000", {})
    found = report(plant(["ab"]), settings={"gate": {"max_parity": 2}})
    assert found["languages"] == {}
    assert found["gate"]["status"] == "failed", "a gate that checked nothing fails"


def test_each_language_is_compared_with_its_monolingual_tokenizer(plant, make_shard, make_counts, report):
    corpus = {language: texts(language, 40) for language in ("en", "hi")}
    counts = make_counts(make_shard("s/00000", corpus))
    found = report(plant([" the", "of"]), "--counts", counts, settings={"monolingual_vocabulary": 600})
    for language in corpus:
        entry = found["languages"][language]
        own = entry["monolingual"]
        # Without its 4 special tokens, the monolingual tokenizer is at most as large as the shared one.
        assert own["vocabulary"] <= found["vocabulary"] + 4
        assert own["pieces"] > 10
        assert entry["over_monolingual"] == pytest.approx(entry["tokens"] / own["tokens"] - 1, abs=1e-4)
    assert found["languages"]["hi"]["over_monolingual"] > 0, "the shared tokenizer has no merges for Hindi"


def test_a_monolingual_tokenizer_is_trained_on_the_most_frequent_pieces(
    plant, make_shard, make_counts, report, monkeypatch
):
    counts = make_counts(make_shard("s/00000", {"en": texts("en", 40)}))
    monkeypatch.setattr(counts_module, "MOST_PIECES", 5)
    found = report(plant([" the"]), "--counts", counts)
    assert found["languages"]["en"]["monolingual"]["pieces"] == 5


@pytest.mark.parametrize("settings", [{"monolingual_vocabulary": None}, {}])
def test_without_counts_or_if_disabled_there_is_no_monolingual_tokenizer(
    plant, make_shard, make_counts, report, settings
):
    counts = make_counts(make_shard("s/00000", {"en": texts("en")}))
    found = report(plant([" the"]), *(["--counts", counts] if settings else []), settings=settings)
    assert found["languages"]["en"]["monolingual"] is None
    assert found["languages"]["en"]["over_monolingual"] is None


def test_the_same_corpus_gives_the_same_bytes(plant, make_shard, make_counts, report, tmp_path):
    corpus = {language: texts(language) for language in WORDS}
    counts = make_counts(make_shard("s/00000", corpus), make_shard("s/00001", {"en": ["the of"]}))
    written = []
    for _ in range(2):
        report(plant([" the", "of"]), "--counts", counts)
        written.append([(tmp_path / f"out/tokenizer.{kind}").read_bytes() for kind in ("json", "html")])
    assert written[0] == written[1]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["tokenizer.html", "tokenizer.json"]
