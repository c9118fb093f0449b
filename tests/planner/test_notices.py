"""Warnings and remarks about a plan."""

from __future__ import annotations

import pytest
from changed_preset import changed
from repository import ROOT
from tiny_run import configuration

from bloomery.checks.load_config import load_config, validate_config
from bloomery.spec.parameters import planned_rows
from planner.notices import notices


def test_plans_count_with_the_stated_size_and_say_that_it_is_one() -> None:
    config = configuration(existing="owner/name", vocabulary_size=50_257)
    assert planned_rows(config) == 50_304
    found = {notice.key: notice for notice in notices(config)}
    assert found["tokenizer.vocabulary_size"].value == 50_257
    assert "owner/name" in found["tokenizer.vocabulary_size"].reason
    assert "tokenizer.vocabulary_size" not in {notice.key for notice in notices(configuration())}


def test_what_ran_in_2022_is_a_warning() -> None:
    from bloomery.spec.deepspeed_json import deepspeed_json
    from planner.notices import notices

    tr8 = load_config(ROOT / "config/models/tr8-104b.yaml")
    heads = next(notice for notice in notices(tr8) if notice.key == "model.heads")
    assert "145 wide, which is not a multiple of 8" in heads.reason
    bloom = load_config(ROOT / "config/models/tr11-176b.yaml")
    assert "uses stage 1" in next(notice.reason for notice in notices(bloom) if notice.key == "training.zero_stage")
    assert deepspeed_json(bloom.training)["zero_optimization"]["stage"] == 1
    assert deepspeed_json(bloom.training)["data_types"] == {"grad_accum_dtype": "fp32"}


@pytest.mark.parametrize("gpu", ["v100-16gb", "v100-32gb", "t4-16gb"])
def test_a_gpu_without_bf16_is_a_warning(gpu: str) -> None:
    from planner.notices import notices

    found = notices(validate_config(changed("tr11-176b", {"plan.gpu": gpu})))
    assert f"{gpu} does not support bfloat16 matrix products" in {notice.reason for notice in found}


def test_failures_without_the_time_of_a_save_are_a_warning() -> None:
    from planner.notices import notices

    found = notices(validate_config(changed("tr8-104b", {"plan.faults.days_between_failures": 3})))
    assert "the time of a save is unknown" in next(
        notice.reason for notice in found if notice.key == "plan.save_seconds"
    )
    assert "plan.save_seconds" not in {notice.key for notice in notices(validate_config(changed("tr11-176b", {})))}
