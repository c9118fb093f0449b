"""Test the gate: it names every figure beyond its limit, and the exit code gives the verdict."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from bloomery.base.errors import CheckFailedError, ConfigError
from bloomery.config.tokenizer_report import TokenizerGate
from data_prep.tokenizer.cli import app
from data_prep.tokenizer.report.gate import failures, verdict

ENTRY = {
    "name": "English", "tokens_per_word": 1.5, "bytes_per_token": 4.0, "single_byte_share": 0.1, "parity": 1.0,
    "over_monolingual": 0.05, "over_reference": None,
}  # fmt: skip
REPORT = {
    "languages": {
        "en": ENTRY,
        "ta": ENTRY | {"name": "Tamil", "tokens_per_word": 2.5, "bytes_per_token": 9.0, "over_monolingual": 0.2},
    },
    "vocabulary_facts": {"never_used": {"share": 0.02}},
}


def failing(**limits) -> list[tuple[str | None, str]]:
    return [(one.language, one.limit) for one in failures(REPORT, TokenizerGate(**limits))]


def test_each_broken_limit_names_its_languages():
    assert failing() == []
    assert failing(max_tokens_per_word=2.5, min_bytes_per_token=4.0, max_single_byte_share=0.1, max_parity=1.0) == []
    assert failing(max_tokens_per_word=2.4) == [("ta", "max_tokens_per_word")]
    assert failing(min_bytes_per_token=5) == [("en", "min_bytes_per_token")]
    assert failing(max_single_byte_share=0.05) == [(code, "max_single_byte_share") for code in ("en", "ta")]
    assert failing(max_over_monolingual=0.1) == [("ta", "max_over_monolingual")]
    assert failing(max_never_used_share=0.02) == []
    assert failing(max_never_used_share=0.01) == [(None, "max_never_used_share")]


def test_limits_may_differ_by_language_or_apply_to_some_languages_only():
    assert failing(max_tokens_per_word={"ta": 3, "default": 1.2}) == [("en", "max_tokens_per_word")]
    assert failing(max_tokens_per_word={"ta": 2}) == [("ta", "max_tokens_per_word")]
    assert failing(max_tokens_per_word=1.0, languages=["en"]) == [("en", "max_tokens_per_word")]


def test_a_limit_that_cannot_be_checked_fails():
    assert failing(max_parity=2, languages=["fr"]) == [("fr", "max_parity")]
    # The corpus has no language with this code, which may be misspelt.
    assert failing(max_parity={"english": 2}) == [("english", "max_parity")]
    assert failing(max_parity={"default": 2, "fr": 3}) == [("fr", "max_parity")]
    assert failing(max_parity={"fr": 2}, languages=["en"]) == []
    assert failing(max_over_reference=0.5) == [("en", "max_over_reference"), ("ta", "max_over_reference")]
    empty = {"languages": {}, "vocabulary_facts": {"never_used": {"share": 0.0}}}
    assert verdict(empty, TokenizerGate(max_parity=2))["status"] == "failed"


@pytest.mark.parametrize("limits", [{"max_parity": 0}, {"max_parity": {"en": -1}}, {"max_single_byte_share": 2}])
def test_impossible_limits_are_refused(limits):
    with pytest.raises(ValidationError):
        TokenizerGate(**limits)


def test_a_gate_without_limits_has_the_status_none():
    assert verdict(REPORT, None)["status"] == verdict(REPORT, TokenizerGate(languages=["en"]))["status"] == "none"


@pytest.fixture
def check(tmp_path):
    """Return `run(gate)`, which returns the result of `bloomery tokenizer check` and the path of the verdict."""

    def run(gate, *, report=True):
        (tmp_path / "report.json").write_text(json.dumps(REPORT))
        (tmp_path / "config.json").write_text(json.dumps({"report": {"gate": gate}}))
        options = ["--config", str(tmp_path / "config.json"), "--output", str(tmp_path / "gate.json")]
        options += ["--report", str(tmp_path / "report.json")] if report else []
        return CliRunner().invoke(app, ["check", *options]), tmp_path / "gate.json"

    return run


def test_the_verb_fails_and_names_language_limit_and_figure(check):
    result, path = check({"max_tokens_per_word": 2, "max_never_used_share": 0.001})
    assert isinstance(result.exception, CheckFailedError)
    assert result.exception.exit_code == 1
    message = str(result.exception)
    assert "Tamil (ta): tokens per word is 2.5, but max_tokens_per_word allows at most 2" in message
    assert "the vocabulary: share of tokens never used is 2 %, but max_never_used_share allows at most 0.1 %" in message
    assert "English" not in message
    found = json.loads(path.read_text())
    assert (found["status"], len(found["failures"])) == ("failed", 2)


def test_the_verb_passes_or_warns(check):
    result, path = check({"max_tokens_per_word": 3})
    assert (result.exit_code, json.loads(path.read_text())["status"]) == (0, "passed")
    result, path = check({"max_tokens_per_word": 2, "severity": "warn"})
    assert (result.exit_code, json.loads(path.read_text())["status"]) == (0, "warned")
    assert "warning: Tamil (ta): tokens per word is 2.5" in result.stderr


def test_a_report_is_needed_only_with_limits(check):
    result, path = check(None, report=False)
    assert (result.exit_code, json.loads(path.read_text())["status"]) == (0, "none")
    result, _ = check({"max_parity": 2}, report=False)
    assert isinstance(result.exception, ConfigError)
