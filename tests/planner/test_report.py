"""Test the tables of a plan."""

from __future__ import annotations

from typing import Any

import pytest
from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.run import RunConfig
from planner.answers import answers
from planner.report import tables


def rows_of(config: RunConfig, title: str) -> dict[str, Any]:
    (found,) = (table for table in tables(answers(config)) if table.title == title)
    return dict(found.rows)


@pytest.mark.parametrize(
    ("preset", "shown"),
    [
        ("tr8-104b", "none, because export.enabled is false"),
        ("tr11-176b", "656.6 GiB, including its published copy"),
    ],
)
def test_the_plan_says_why_no_model_is_exported(preset: str, shown: str) -> None:
    config = load_config(ROOT / f"config/models/{preset}.yaml")
    assert rows_of(config, "Disk")["exported model"] == shown


def test_the_plan_states_the_time_of_the_reference_logits_of_a_save() -> None:
    config = load_config(ROOT / "config/models/tr11-176b.yaml")
    stated = rows_of(config, "Failures")
    assert stated["time of a save"] == "40.0 s"
    assert stated["reference logits of a save"] == "20.6 s (estimated); plan.save_seconds must include this time"
    changed = config.plan.model_copy(update={"save_seconds": None, "write_gb_per_second": 100.0})
    computed = rows_of(config.model_copy(update={"plan": changed}), "Failures")
    assert computed["reference logits of a save"] == "20.6 s (estimated); included in the time of a save"
    # 2.51 TB at 100 GB/s take 25.1 s.
    assert computed["time of a save"] == "45.7 s"


def test_the_plan_states_the_warmup_in_iterations_and_the_rule_of_the_learning_rate() -> None:
    rows = rows_of(load_config(ROOT / "config/models/t5-small.yaml"), "Batch and schedule")
    assert rows["learning rate"] == "2.830E-03 at most, 1.000E-05 at the end"
    assert rows["rule of the peak"] == "2.830E-03 x sqrt(batch / 512), at most 1.130E-02"
    assert rows["warm-up"] == "1,024 iterations (1.0% of the training)"
    config = load_config(ROOT / "config/models/tr8-104b-curriculum.yaml")
    without = config.training.optimizer.model_copy(update={"warmup_samples": 0})
    training = config.training.model_copy(update={"optimizer": without})
    rows = rows_of(config.model_copy(update={"training": training}), "Batch and schedule")
    assert (rows["warm-up"], "rule of the peak" in rows) == ("0 iterations", False)
