"""Test that invalid blend stages are refused with their key and the expected value."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import validate_config
from bloomery.config.run import RunConfig
from bloomery.config.stages import IndexStage
from bloomery.orchestration.stage_sections import stage_sections

SAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "config/sample.yaml").read_text())


def configured(*stages: dict[str, Any]) -> RunConfig:
    raw = copy.deepcopy(SAMPLE)
    # 85 samples fill 10 steps of 8 samples; no step reads the last 5 samples.
    raw["training"] |= {"train_samples": 85, "batch": {"micro_batch_size": 1, "global_batch_size": 8}}
    raw["training"]["optimizer"] = {"learning_rate": 0.01}
    raw["index"] = {"blend": list(stages)}
    return validate_config(raw, where="my.yaml")


def test_blend_stages_change_only_the_index_section() -> None:
    plain = stage_sections(configured())
    staged = stage_sections(configured({"spread_to": 80}, {"from_sample": 40, "weights": {"en": 1, "fr/web": 0.5}}))
    assert {name for name in plain if plain[name] != staged[name]} == {"index"}
    index = staged["index"]
    assert isinstance(index, IndexStage)
    assert [stage.from_sample for stage in index.blend] == [0, 40]
    assert index.blend[0].weights is None
    assert index.blend[1].weights == {"en": 1.0, "fr/web": 0.5}


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        (
            [{"from_sample": 8}],
            "from_sample 8: the first stage of the blend must begin at sample 0; expected: 0",
        ),
        (
            [{}, {"from_sample": 40}, {"from_sample": 40}],
            "index.blend[2].from_sample 40 must be above from_sample 40 of the previous stage of the blend; expected: "
            "at least 41",
        ),
        ([{}, {"from_sample": 0}], "index.blend[1].from_sample 0 must be above from_sample 0 of the previous"),
        (
            [{}, {"from_sample": 80}],
            "index.blend[1].from_sample 80: the stage would never begin, because the training reads only 80 samples; "
            "expected: at most 79",
        ),
        (
            [{"spread_to": 39}, {"from_sample": 40}],
            "index.blend[0].spread_to 39 is less than 40, the sample at which this stage of the blend ends; expected: "
            "at least 40, or null",
        ),
        ([{"spread_to": 79}], "index.blend[0].spread_to 79 is less than 80, the sample at which"),
        ([{"weights": {}}], "index.blend[0].weights: {} is not valid; expected: a weight above 0 for a language"),
        ([{"weights": {"en": 0, "fr": 0.0}}], "index.blend[0].weights: "),
        ([{"weights": {"en": -1, "fr": 1}}], "index.blend[0].weights.en: -1"),
        ([{"from_sample": -1}], "index.blend[0].from_sample: -1"),
        ([{"from": 0}], "index.blend[0].from: unknown key"),
    ],
)
def test_invalid_blend_stages_are_refused(stages: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(*stages)
    assert says in str(caught.value)
    assert str(caught.value).startswith("my.yaml: 1 problem\n")


def test_spread_to_may_exceed_the_end_of_the_training() -> None:
    assert configured({"spread_to": 1000}).index.blend[0].spread_to == 1000
