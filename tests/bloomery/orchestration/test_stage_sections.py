"""Test the sections of the configuration that each stage reads."""

from __future__ import annotations

import copy
from typing import Any

import yaml
from repository import ROOT

from bloomery.checks.load_config import validate_config
from bloomery.orchestration.stage_sections import stage_sections

SAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "config/sample.yaml").read_text())


def test_skip_and_train_tokens_do_not_change_the_index_section() -> None:
    raw = copy.deepcopy(SAMPLE)
    raw["training"] |= {"skip": [{"from_sample": 3, "to_sample": 40}], "train_tokens": 10_000}
    raw["training"]["optimizer"] |= {"warmup_samples": 0, "schedule": "constant"}
    assert stage_sections(validate_config(raw))["index"] == stage_sections(validate_config(SAMPLE))["index"]
