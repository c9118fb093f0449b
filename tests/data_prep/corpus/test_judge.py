"""Test the verdicts on documents, and the limits that decide them."""

import json

import numpy as np
import pytest
from measured_rows import FRENCH, measured, stage
from repository import SAMPLE

from bloomery.base.errors import InputError
from bloomery.config.corpus import JudgeConfig, LanguageIdConfig, Thresholds
from bloomery.config.languages import resolved_thresholds
from bloomery.config.stages import JudgeStage
from data_prep.corpus.judge import RULES, failures, verdicts


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


def test_a_language_without_limits_gets_the_default_limits() -> None:
    table = measured(("s", "xx", "one two"), ("s", "en", "one two"))
    judged = JudgeStage(**stage(en={}).model_dump() | {"thresholds": {"default": {"min_words": 9}, "en": {}}})
    broken, _ = failures(table, judged)
    assert verdicts(table, broken)["kept"].to_pylist() == [False, True]


def test_a_recipe_applies_only_to_its_sources() -> None:
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


def test_content_hashes_ignore_only_white_space_and_composition() -> None:
    texts = ["Un été  long", "Un\n\te\u0301te\u0301 long ", "Un été longue", "un été long"]
    hashes = measured(*(("s", "fr", text) for text in texts))["content_hash"].to_pylist()
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_a_document_of_white_space_is_removed_whatever_the_limits() -> None:
    table = measured(("s", "fr", "\n \u3000\n"), ("s", "fr", ""), ("s", "code", "\t\n"), ("s", "fr", "!"))
    result = verdicts(table, failures(table, stage())[0])
    assert result["kept"].to_pylist() == [False, False, False, True]
    assert result["rule"].to_pylist() == ["empty", "empty", "empty", ""]


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


def test_the_error_names_a_measure_that_an_older_version_lacks() -> None:
    table = measured(("s", "en", FRENCH)).drop_columns(["hash_ratio"])
    with pytest.raises(
        InputError,
        match="there is no measure 'hash_ratio', which the limit 'max_hash_ratio' of the language 'en' needs",
    ):
        failures(table, stage(en={"max_hash_ratio": 0.1}))
