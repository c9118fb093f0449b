"""Test the measures that depend on a document's language: the ratios of listed words and of scripts."""

import json
import unicodedata
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from repository import SAMPLE

from bloomery.config.corpus import LanguageIdConfig, MeasureConfig, NearDedupConfig, Thresholds
from bloomery.config.languages import language_profiles, published_thresholds, resolved_words
from bloomery.config.stages import JudgeStage, MeasureStage
from bloomery.config.words import WordLists
from data_prep.corpus import _text
from data_prep.corpus.judge import RULES, failures
from data_prep.corpus.language_words import LanguageWords
from data_prep.corpus.measure import measure_batch
from data_prep.formats.shard import DOCUMENT_SCHEMA


def measures(documents: list[tuple[str, str]], scripts: dict[str, list[str]] | None = None, **words: Any) -> pa.Table:
    """Measure documents of (language, text), with the given word lists per language."""
    stage = MeasureStage(
        near=NearDedupConfig(),
        seed=1,
        unspaced=["zhs", "zht"],
        words={code: WordLists(**lists) for code, lists in words.items()},
        scripts=scripts or {},
    )
    rows = [
        {"id": str(n), "source": "s", "language": language, "text": text, "meta": ""}
        for n, (language, text) in enumerate(documents)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=DOCUMENT_SCHEMA)
    return pa.Table.from_batches([measure_batch(batch, stage, LanguageWords(stage))])


def test_each_language_uses_its_own_words_and_others_use_the_default_words() -> None:
    table = measures(
        [("en", "the cat the dog"), ("fr", "the cat le chien"), ("xx", "zu cat zu dog"), ("zhs", "我的狗和你的猫")],
        en={"stop_words": ["the"], "flagged_words": ["cat"]},
        fr={"stop_words": ["le"]},
        zhs={"stop_words": ["的", "和"], "flagged_words": ["你的猫"]},
        default={"stop_words": ["zu"]},
    )
    assert table["stop_word_ratio"].to_pylist() == [0.5, 0.25, 0.5, 3 / 7]
    assert table["flagged_word_ratio"].to_pylist() == [0.25, 0, 0, 3 / 7]


def test_without_words_the_ratios_are_0() -> None:
    table = measures([("en", "the cat"), ("fr", "")], fr={"stop_words": ["le"]})
    assert table["stop_word_ratio"].to_pylist() == [0, 0]


@pytest.mark.parametrize(
    ("listed", "spelt"),
    [
        ("người", "ngươ\u0300i"),  # the tone is a separate character, as Windows writes Vietnamese
        ("người", unicodedata.normalize("NFD", "người")),
        ("करोड़", "करो\u095c"),  # letter and nukta are one code point, which no normal form contains
        ("ਜ਼ਿਲ\u0a4dਹਾ", "\u0a5bਿਲ\u0a4dਹਾ"),
        ("l'été", "L’ÉTÉ"),
    ],
)
def test_a_word_is_found_in_any_encoding_of_its_letters(listed: str, spelt: str) -> None:
    assert listed != spelt
    table = measures([("vi", f"{spelt} x"), ("vi", "x y")], vi={"stop_words": [listed]})
    assert table["stop_word_ratio"].to_pylist() == [0.5, 0]


def test_the_script_ratio_is_the_share_of_the_scripts_of_the_language() -> None:
    table = measures(
        [("hi", "कखग abc"), ("ja", "漢かカa"), ("xx", "कखग abc"), ("hi", "123")],
        scripts={"hi": ["Devanagari"], "ja": ["Han", "Kana"]},
    )
    assert table["script_ratio"].to_pylist() == [0.5, 0.75, 1, 0]
    first = table["scripts"][0].as_py()
    assert list(first) == list(_text.SCRIPTS)
    assert {name: share for name, share in first.items() if share} == {"Latin": 0.5, "Devanagari": 0.5}


def test_words_of_a_run_are_appended_to_those_of_the_profile() -> None:
    config = MeasureConfig.model_validate(
        {"words": {"en": {"stop_words": ["the", "thus"]}, "xx": {"stop_words": ["zu"]}}}
    )
    resolved = resolved_words(config)
    own = language_profiles()["en"].stop_words
    assert resolved["en"].stop_words == [*own, "thus"]
    assert resolved["en"].flagged_words == language_profiles()["en"].flagged_words
    assert resolved["xx"].stop_words == ["zu"]
    assert "code" not in resolved


def test_the_kernel_refuses_wrong_entries_and_wrong_list_numbers() -> None:
    for entry in ("", "!", "a b c d e f g h i"):
        with pytest.raises(ValueError, match="words: it must have 1 to 8"):
            _text.WordLists([([entry], [], False)])
    lists = _text.WordLists([(["a"], [], False)])
    for numbers in ([1], [-2], [0, 0]):
        with pytest.raises(ValueError, match="numbers"):
            _text.measure(b"a", np.array([0, 1]), np.zeros(1, np.uint8), lists, np.array(numbers, np.int32))
    with pytest.raises(ValueError, match="go together"):
        _text.measure(b"a", np.array([0, 1]), np.zeros(1, np.uint8), lists)


def test_profiles_list_each_word_once_and_in_their_own_script() -> None:
    for code, profile in language_profiles().items():
        assert set(profile.scripts) <= set(_text.SCRIPTS), code
        for words in (profile.stop_words, profile.flagged_words):
            assert len(words) == len(set(words)), code
        if not profile.stop_words:
            assert code in ("code", "default")
            continue
        assert len(profile.stop_words) >= 50, code
        table = measures([(code, " ".join(profile.stop_words))], {code: profile.scripts})
        assert table["script_ratio"].to_pylist() == [1], code


def prose() -> dict[str, list[str]]:
    """Return the sample's documents by language, without code and without the planted defects."""
    files = {path.stem: path for path in sorted(SAMPLE.glob("*.jsonl")) if path.stem not in ("code", "defects")}
    return {code: [json.loads(line)["text"] for line in path.read_text().splitlines()] for code, path in files.items()}


def test_prose_of_the_sample_is_far_from_the_limits_of_words_and_scripts() -> None:
    for code, texts in prose().items():
        profile = language_profiles()[code]
        published = published_thresholds("roots").get(code)
        lists = {"stop_words": profile.stop_words, "flagged_words": profile.flagged_words}
        table = measures([(code, text) for text in texts], {code: profile.scripts}, **{code: lists})
        for limits in filter(None, (profile.thresholds, published)):
            assert min(table["stop_word_ratio"].to_pylist()) >= 1.5 * (limits.min_stop_word_ratio or 0), code
        assert max(table["flagged_word_ratio"].to_pylist()) == 0, code
        assert min(table["script_ratio"].to_pylist()) >= 1.5 * (profile.thresholds.min_script_ratio or 0), code


def test_stop_words_distinguish_a_language_from_others_of_its_script() -> None:
    """A list must be more frequent in its own language than in any other language."""
    latin = {code: texts for code, texts in prose().items() if language_profiles()[code].scripts == ["Latin"]}
    for code in latin:
        words = {"xx": {"stop_words": language_profiles()[code].stop_words}}
        shares = {
            other: np.median(measures([("xx", text) for text in others], **words)["stop_word_ratio"].to_numpy())
            for other, others in latin.items()
        }
        assert max(shares, key=lambda other: shares[other]) == code, shares


def test_word_salad_foreign_letters_and_spam_break_the_limits() -> None:
    hotels = "Hotel Paris Lyon Nice Cannes Prix Photos Chambres Avis Contact Plan Tarifs Booking Spa Piscine " * 3
    greek = "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα " * 3
    spam = "Voici des vidéos gratuites, film porno et porno gratuit, pour tous ceux qui le veulent et qui sont là. "
    profile = language_profiles()["fr"]
    lists = {"stop_words": profile.stop_words, "flagged_words": profile.flagged_words}
    table = measures([("fr", hotels), ("fr", greek), ("fr", spam)], {"fr": profile.scripts}, fr=lists)
    stage = JudgeStage(
        thresholds={"default": Thresholds(), "fr": profile.thresholds},
        accept={},
        trusted_sources=[],
        language_id=LanguageIdConfig(),
    )
    broken, _ = failures(table, stage)
    listed = ("min_script_ratio", "min_stop_word_ratio", "max_flagged_word_ratio")
    failing = [{rule for rule in listed if broken[RULES.index(rule), row]} for row in range(3)]
    assert failing == [{"min_stop_word_ratio"}, {"min_script_ratio", "min_stop_word_ratio"}, {"max_flagged_word_ratio"}]
