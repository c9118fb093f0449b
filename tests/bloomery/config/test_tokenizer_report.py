"""Test the settings of the tokenizer's report.

Contradictory settings are refused, and the tokenizer's training does not depend on the settings.
"""

from __future__ import annotations

from typing import Any

import pytest

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import validate_config
from bloomery.orchestration.stage_sections import stage_sections

RUN: dict[str, Any] = {
    "name": "x",
    "sources": [{"name": "texts", "kind": "jsonl", "paths": ["a.jsonl"]}],
    "model": {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8},
    "training": {"train_samples": 8, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 0.1}},
}


def configured(report: dict[str, Any]) -> Any:
    return validate_config(RUN | {"tokenizer": {"report": report}})


@pytest.mark.parametrize(
    ("report", "key"),
    [
        ({"references": [{"name": "a", "tokenizer": "x"}, {"name": "a", "tokenizer": "y"}]}, "references[1].name"),
        ({"parallel": "x", "parallel_source": "texts"}, "parallel"),
        ({"parallel_source": "text"}, "parallel_source"),
        ({"monolingual_vocabulary": None, "gate": {"max_over_monolingual": 0.1}}, "monolingual_vocabulary"),
        ({"gate": {"max_over_reference": 0.1}}, "references"),
    ],
)
def test_contradictory_report_settings_are_refused_with_their_key(report: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(report)
    assert [problem.key for problem in caught.value.problems] == [f"tokenizer.report.{key}"]


@pytest.mark.parametrize(
    ("limits", "key"), [(-1, "max_parity"), (float("nan"), "max_parity"), ({"en": -1}, "max_parity.en")]
)
def test_a_wrong_limit_is_refused_with_its_key(limits: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured({"gate": {"max_parity": limits}})
    keys = {problem.key for problem in caught.value.problems}
    assert f"tokenizer.report.gate.{key}" in keys
    assert keys <= {"tokenizer.report.gate.max_parity", "tokenizer.report.gate.max_parity.en"}


def test_a_missing_parallel_text_is_reported_before_any_stage_starts() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.report\.parallel: no file or folder '/no/where'"):
        stage_sections(configured({"parallel": "/no/where"}))


def test_report_settings_change_only_the_section_of_the_report() -> None:
    plain, other = (
        stage_sections(configured(report))
        for report in ({}, {"gate": {"max_parity": 2}, "monolingual_vocabulary": None})
    )
    changed = {name for name in plain if plain[name].model_dump(mode="json") != other[name].model_dump(mode="json")}
    assert changed == {"tokenizer_report"}
