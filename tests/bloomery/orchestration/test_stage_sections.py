"""Test the sections of the configuration that each stage reads."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.checks.load_config import validate_config
from bloomery.orchestration.stage_sections import stage_sections

SAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "config/sample.yaml").read_text())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("checkpoint", {"every_iterations": 5, "keep_last": 7}),
        ("guards", {"spike": None}),
        ("segment", {"max_crashes": 9}),
        ("peak_tflops", 1.0),
    ],
)
def test_keys_that_the_export_does_not_read_do_not_change_its_section(key: str, value: Any) -> None:
    raw = copy.deepcopy(SAMPLE)
    raw["training"][key] = value
    new, old = stage_sections(validate_config(raw)), stage_sections(validate_config(SAMPLE))
    assert new["export"] == old["export"]
    assert new["train"] != old["train"]


@pytest.mark.parametrize(
    ("section", "value"),
    [("export", {"dtype": "float32"}), ("name", "other")],
)
def test_keys_that_the_export_reads_change_its_section(section: str, value: Any) -> None:
    sections = stage_sections(validate_config(SAMPLE | {section: value}))
    assert sections["export"] != stage_sections(validate_config(SAMPLE))["export"]


def test_skip_and_train_tokens_do_not_change_the_index_section() -> None:
    raw = copy.deepcopy(SAMPLE)
    raw["training"] |= {"skip": [{"from_sample": 3, "to_sample": 40}], "train_tokens": 10_000}
    raw["training"]["optimizer"] |= {"warmup_samples": 0, "schedule": "constant"}
    assert stage_sections(validate_config(raw))["index"] == stage_sections(validate_config(SAMPLE))["index"]
