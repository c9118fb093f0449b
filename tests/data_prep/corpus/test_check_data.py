"""Test `bloomery config check --data`, which compares the first rows of sources with the configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from changed_sample import changed
from command_line import bloomery

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import validate_config
from data_prep.corpus.check_data import check_data


def write(path: Path, *values: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return str(path)


def check(mixture: dict[str, Any] | None = None, **keys: Any) -> list[dict[str, Any]]:
    raw = changed(sources=[{"name": "s", "kind": "jsonl", **keys}], corpus__mixture=mixture or {})
    return check_data(validate_config(raw), "my.yaml", 1000)


def said(mixture: dict[str, Any] | None = None, **keys: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        check(mixture, **keys)
    assert caught.value.exit_code == 2
    return str(caught.value)


FRENCH = {"text": "un", "lang": "fr", "id": 1}


def test_rows_that_fit_are_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = check(paths=[write(tmp_path / "a.jsonl", FRENCH)], language_field="lang", id_field="id")
    assert found["languages"] == {"fr": 1}
    assert found["complete"] is True
    printed = capsys.readouterr()
    assert "s (jsonl)" in printed.out
    assert "estimated text of all sources: 2 B, about 1 tokens" in printed.out
    assert "warning" not in printed.err


@pytest.mark.parametrize("role", ["text_field", "language_field", "id_field", "licence_field"])
def test_a_field_that_no_row_has_is_refused(tmp_path: Path, role: str) -> None:
    path = write(tmp_path / "fr.jsonl", {**FRENCH, "langue": "fr"})
    text = said(paths=[path], **{role: "langu"})
    assert f"sources[0].{role}: none of the 1 rows has a field 'langu' (did you mean 'langue'?)" in text


def test_a_missing_language_field_is_reported_although_the_source_has_a_language(tmp_path: Path) -> None:
    """Without this error, rows that lack the field would silently get the source's language."""
    path = write(tmp_path / "a.jsonl", FRENCH)
    assert "language_field: none of" in said(paths=[path], language="fr", language_field="language")


def test_rows_with_a_code_of_another_standard_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", FRENCH, {"text": "一", "lang": "zh"}, {"text": "one", "lang": "en-US"})
    text = said(paths=[path], language_field="lang")
    assert "1 of 3 rows have the language 'zh'" in text
    assert "expected: the language code 'zhs' or 'zht' in these rows" in text
    assert "expected: the language code 'en' in these rows" in text


def test_a_weight_of_a_language_that_no_row_has_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", FRENCH)
    text = said({"weights": {"sw": 1.0, "yo": 0.0}}, paths=[path], language_field="lang")
    assert "corpus.mixture.weights.sw: none of the 1 rows has the language 'sw'; expected: a weight only for" in text
    assert "--rows" not in text  # every row was read
    assert "weights.yo" not in text


def test_explicit_weights_name_every_language(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", FRENCH, {"text": "moja", "lang": "sw"})
    text = said({"method": "explicit", "weights": {"fr": 1.0}}, paths=[path], language_field="lang")
    assert "method is 'explicit', but there is no weight for sw" in text


def test_a_source_without_rows_or_with_only_bad_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "blank.jsonl").write_text("\n\n")
    assert "the source 's' has no row" in said(paths=[str(tmp_path / "blank.jsonl")])
    text = said(paths=[write(tmp_path / "a.jsonl", {"text": "un"})])
    assert "1 of 1 rows are bad; the first is a.jsonl, line 1: no language" in text
    assert "expected: the key `language` or `language_field`" in text


def test_an_empty_file_is_a_bad_row_without_a_line(tmp_path: Path) -> None:
    (tmp_path / "fr.jsonl").write_bytes(b"")
    text = said(paths=[str(tmp_path / "fr.jsonl")])
    assert "1 of 1 rows are bad; the first is fr.jsonl: empty file" in text


def test_repeated_ids_and_languages_without_a_profile_are_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.jsonl", {**FRENCH, "lang": "de"}, FRENCH)
    check(paths=[path], language_field="lang", id_field="id")
    warnings = capsys.readouterr().err
    assert "1 of 2 rows repeat the id of an earlier row" in warnings
    assert "no profile of de" in warnings


@pytest.mark.slow
def test_the_verb_reads_rows_only_when_asked() -> None:
    assert "rows read" not in bloomery("config", "check", "config/sample.yaml").stdout
    done = bloomery("config", "check", "--data", "config/sample.yaml", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["data"]
    assert {"fr", "zhs", "code"} <= set(found["languages"])
