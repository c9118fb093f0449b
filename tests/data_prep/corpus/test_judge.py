"""Language identification, verdicts and the profiles that they rest on."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bloomery.base.errors import InputError
from bloomery.config.corpus import JudgeConfig, LanguageIdConfig, NearDedupConfig, Thresholds
from bloomery.config.languages import language_profiles, published_thresholds, resolved_thresholds
from bloomery.config.stages import JudgeStage, MeasureStage
from data_prep.corpus.judge import RULES, failures, verdicts
from data_prep.corpus.langid import detect
from data_prep.corpus.language_words import LanguageWords
from data_prep.corpus.measure import measure_batch
from data_prep.formats.shard import DOCUMENT_SCHEMA

FRENCH = "Le facteur de notre vallée circule encore à vélo, même en hiver, et salue les vaches par leur nom. " * 2
SAMPLE = Path(__file__).parents[3] / "config/sample"
STAGE = MeasureStage(near=NearDedupConfig(), seed=1, unspaced=["zhs"])
ROOTS = """
ak ar as bm bn ca en es eu fon fr gu hi id ig ki kn lg ln ml mr ne nso ny or pa pt rn rw sn st sw ta te tn ts tum tw ur
vi wo xh yo zhs zht zu
""".split()  # noqa: SIM905


def measured(*rows: tuple[str, str, str], batch: int = 100) -> pa.Table:
    """Measures of (source, language, text)."""
    columns = {
        "id": [f"{n:032x}" for n in range(len(rows))],
        "source": [row[0] for row in rows],
        "language": [row[1] for row in rows],
        "text": [row[2] for row in rows],
        "meta": [""] * len(rows),
    }
    table = pa.table(columns, schema=DOCUMENT_SCHEMA)
    language_words = LanguageWords(STAGE)
    batches = table.to_batches(max_chunksize=batch)
    return pa.Table.from_batches([measure_batch(part, STAGE, language_words) for part in batches])


def stage(**limits: dict[str, float]) -> JudgeStage:
    return JudgeStage(
        thresholds={"default": Thresholds(), **{code: Thresholds(**values) for code, values in limits.items()}},
        accept={"en": ["en"], "fr": ["fr"], "fon": [], "id": ["id", "ms"]},
        trusted_sources=["trusted"],
        language_id=LanguageIdConfig(),
    )


def test_vocalised_arabic_and_control_characters_are_identified() -> None:
    """CLD2 takes vocalised Arabic for Bosnian and refuses control characters and noncharacters."""
    verse = "بِسْمِ اللَّهِ الرَّحْمَٰنِ الرَّحِيمِ الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ الرَّحْمَٰنِ الرَّحِيمِ مَالِكِ يَوْمِ الدِّينِ"
    assert detect(verse).codes[0] == "ar"
    for odd in ("\x7f", "\x0c", "\x85", "\ufffe", "\U0010ffff", "\ufdd0"):
        assert detect(FRENCH + odd).codes[0] == "fr"
    assert detect("12345 !!!") == (False, [], [])


def test_limits_are_inclusive_and_the_first_failing_rule_is_named() -> None:
    table = measured(("s", "en", "one two three four five six"))
    words = float(table["words"][0].as_py())
    for limits, failing in [
        ({"min_words": words}, []),
        ({"max_words": words}, []),
        ({"min_words": words + 1, "max_words": words - 1}, ["min_words", "max_words"]),
    ]:
        broken, _ = failures(table, stage(en=limits))
        row = verdicts(table, broken).to_pylist()[0]
        assert row["rules"] == failing
        assert (row["kept"], row["rule"]) == (not failing, failing[0] if failing else "")


def test_a_language_without_limits_gets_the_default_ones() -> None:
    table = measured(("s", "xx", "one two"), ("s", "en", "one two"))
    judged = JudgeStage(**stage(en={}).model_dump() | {"thresholds": {"default": {"min_words": 9}, "en": {}}})
    broken, _ = failures(table, judged)
    assert verdicts(table, broken)["kept"].to_pylist() == [False, True]


def test_a_recipe_holds_for_its_sources_only() -> None:
    table = measured(("usual", "en", "one two"), ("small", "en", "one two"), ("small", "xx", "one"))
    judged = stage(en={"min_words": 9}).model_copy(
        update={
            "recipes": {"gentle": {"default": Thresholds(min_words=2), "en": Thresholds(min_words=1)}},
            "recipe_of": {"small": "gentle"},
        }
    )
    broken, _ = failures(table, judged)
    assert verdicts(table, broken)["kept"].to_pylist() == [False, True, False]


def test_the_accept_set_decides_and_short_unknown_and_trusted_documents_pass() -> None:
    malay = (
        "Kerajaan telah mengumumkan bahawa semua pelajar boleh mendapatkan bantuan kewangan daripada universiti " * 2
    )
    table = measured(
        ("s", "fr", FRENCH), ("s", "en", FRENCH), ("s", "en", FRENCH[:60]), ("s", "fon", FRENCH),
        ("trusted", "en", FRENCH),
        ("s", "id", malay), ("s", "de", FRENCH), ("s", "en", "123 " * 50),
    )  # fmt: skip
    broken, disagreeing = failures(table, stage())
    assert broken[RULES.index("wrong_language")].tolist() == [0, 1, 0, 0, 0, 0, 0, 1]
    assert disagreeing.tolist() == [0, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_measures_do_not_depend_on_batches(size: int) -> None:
    rows = [
        ("s", "fr", FRENCH),
        ("s", "zhs", "今天天气很好，我们走。"),
        ("s", "en", ""),
        ("s", "en", "x y z"),
        ("s", "fr", "é"),
    ]
    assert measured(*rows, batch=size).combine_chunks().equals(measured(*rows).combine_chunks())


def test_content_hashes_ignore_white_space_and_composition_only() -> None:
    texts = ["Un été  long", "Un\n\te\u0301te\u0301 long ", "Un été longue", "un été long"]
    hashes = measured(*(("s", "fr", text) for text in texts))["content_hash"].to_pylist()
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_there_is_a_profile_for_each_language_of_roots_and_each_number_says_where_it_is_from() -> None:
    profiles = language_profiles()
    assert sorted(profiles) == sorted([*ROOTS, "code", "default"])
    for code, profile in profiles.items():
        limits = profile.thresholds.model_dump(exclude_none=True)
        lists = {name for name in ("stop_words", "flagged_words") if getattr(profile, name)}
        assert limits.keys() | lists == profile.origin.keys(), code
        assert all(math.isfinite(limit) and limit >= 0 for limit in limits.values()), code
        assert all(limit <= 1 for name, limit in limits.items() if name.endswith("_ratio")), code
        assert limits["min_words"] <= 50, code
        assert limits.get("max_mean_word_length", 5) <= 20, "FineWeb-2's 3141 for Xhosa is noise"
    assert {code for code, profile in profiles.items() if profile.unspaced} == {"zhs", "zht"}
    assert {code for code, profile in profiles.items() if not profile.accept} == {"code", "default"}


def test_a_document_without_anything_but_white_space_goes_whatever_the_limits() -> None:
    table = measured(("s", "fr", "\n \u3000\n"), ("s", "fr", ""), ("s", "code", "\t\n"), ("s", "fr", "!"))
    result = verdicts(table, failures(table, stage())[0])
    assert result["kept"].to_pylist() == [False, False, False, True]
    assert result["rule"].to_pylist() == ["empty", "empty", "empty", ""]


def test_every_threshold_names_a_measure() -> None:
    table = measured(("s", "fr", FRENCH))
    names = {rule[4:] for rule in Thresholds.model_fields}
    assert names <= set(table.column_names)
    everything = stage(fr=dict.fromkeys(Thresholds.model_fields, 0.5))
    broken, _ = failures(table, everything)
    assert np.array_equal(broken.any(axis=1), [
        rule in Thresholds.model_fields and (
            table[rule[4:]][0].as_py() < 0.5 if rule.startswith("min") else table[rule[4:]][0].as_py() > 0.5
        )
        for rule in RULES
    ])  # fmt: skip


def test_published_presets() -> None:
    def limits(preset: str, language: str) -> dict[str, float]:
        resolved = resolved_thresholds(JudgeConfig.model_validate({"preset": preset}))
        return (resolved.get(language) or resolved["default"]).model_dump(exclude_none=True)

    # Rae et al. 2021, table A1, for any language; code keeps its own profile.
    assert limits("gopher", "fr") == limits("gopher", "xx")
    assert (limits("gopher", "fr")["min_words"], limits("gopher", "fr")["max_top_2gram_ratio"]) == (50, 0.2)
    for preset in ("gopher", "roots", "fineweb2"):
        assert limits(preset, "code") == limits("bloomery", "code")
    # parameters_filtering.py; the special characters of Hindi held its vowel signs.
    assert limits("roots", "fr")["max_word_repetition_ratio"] == 0.13
    assert limits("roots", "xx")["min_words"] == 10
    assert "max_special_ratio" not in limits("roots", "hi")
    # fineweb-2/configs: a language's row over Gopher's numbers.
    assert (limits("fineweb2", "hi")["max_mean_word_length"], limits("fineweb2", "hi")["min_words"]) == (21, 50)
    assert limits("fineweb2", "sw")["max_duplicate_line_fraction"] == 0.302
    assert set(published_thresholds("fineweb2")) - {"default"} == set(ROOTS) - {"ak", "en", "zht"}
    assert resolved_thresholds(JudgeConfig(preset="none")) == {"default": Thresholds()}


def test_gopher_removes_a_text_of_refrains_and_keeps_prose() -> None:
    prose = "\n".join(json.loads(line)["text"] for line in (SAMPLE / "en.jsonl").read_text().splitlines()[:3])
    song = "La la la, we sing along the road, " * 30
    table = measured(("s", "en", prose), ("s", "en", song))
    gopher = resolved_thresholds(JudgeConfig(preset="gopher"))
    strict = JudgeStage(thresholds=gopher, accept={}, trusted_sources=[], language_id=LanguageIdConfig())
    broken, _ = failures(table, strict)
    failing = {RULES[row] for row in np.flatnonzero(broken[:, 1])}
    assert {"max_top_2gram_ratio", "max_duplicate_5gram_ratio", "max_duplicate_10gram_ratio"} <= failing
    assert "max_hash_ratio" not in failing
    assert not broken[:, 0].any()


def test_measures_of_an_older_version_are_named() -> None:
    table = measured(("s", "en", FRENCH)).drop_columns(["hash_ratio"])
    with pytest.raises(InputError, match="no measure hash_ratio, which max_hash_ratio of en asks for"):
        failures(table, stage(en={"max_hash_ratio": 0.1}))
