"""Test that contradictions in a training's schedule are refused."""

from __future__ import annotations

import time
from typing import Any

import pytest
from changed_sample import changed, message

from bloomery.base.errors import InputError
from bloomery.checks.check_training import refuse_contradictions
from bloomery.checks.load_config import validate_config

# The published script bert12 b8k trains for 6,400 iterations with a batch of 8,192. Its warm-up is .16 of the length of
# the decay, which is 63,600 iterations although 6,336 was intended.
BERT12 = {
    "training__train_samples": 6400 * 8192,
    "training__batch": {"micro_batch_size": 4, "global_batch_size": 8192},
}
SCALING = {"base_batch": 8, "base_learning_rate": 0.02, "warmup_iterations": 4}


@pytest.mark.parametrize(
    ("changes", "stated", "right"),
    [
        (
            {"training__optimizer": {"learning_rate": 2.5e-3, "warmup_samples": 10_176 * 8192}},
            "training.optimizer.warmup_samples 83361792",
            "at most 52428800, or a longer training",
        ),
        (
            {"training__optimizer": {"learning_rate": 2.5e-3, "warmup_tokens": 10_176 * 8192 * 128}},
            "training.optimizer.warmup_tokens 10670309376",
            "at most 6710886400, or a longer training",
        ),
        (
            {
                "training__optimizer": {},
                "training__batch_scaling": {
                    **{"base_batch": 32_768, "base_learning_rate": 5e-3},
                    "warmup_iterations": 10_176,
                },
            },
            "training.batch_scaling.warmup_iterations 10176",
            "at most 6400, or a longer training",
        ),
    ],
)
def test_bert12s_published_warmup_is_refused_in_any_unit(changes: dict[str, Any], stated: str, right: str) -> None:
    text = message(changed(**BERT12 | {"model__sequence_length": 128} | changes))
    # 2.5e-3 x 6400 / 10176 = 1.572e-3
    assert (
        f"{stated}: the warm-up takes 10,176 iterations, but the training has only 6,400, so the learning rate would "
        f"never reach its peak of 0.0025; its greatest value would be 0.001572; expected: {right}"
    ) in text
    assert "1 problem" in text


def test_a_warmup_that_a_ramp_up_and_the_end_in_tokens_cut_short_is_refused() -> None:
    raw = changed(
        training__batch={"global_batch_size": 16, "rampup": {"start": 8, "increment": 8, "samples": 40}},
        training__optimizer={},
        training__batch_scaling=SCALING | {"warmup_iterations": 11},
        training__train_tokens=8 * 128 * 6,
        model__sequence_length=128,
    )
    # Six iterations consume 5 x 8 + 16 = 56 samples, and eleven iterations 5 x 8 + 6 x 16 = 136 samples.
    text = message(raw)
    assert "the warm-up takes 11 iterations, but the training has only 6" in text
    # 0.02 x sqrt(16 / 8) x 56 / 136 = 0.01165
    assert "its peak of 0.02828; its greatest value would be 0.01165; expected: at most 6, or" in text


@pytest.mark.parametrize(("scaling", "most"), [({}, 36), (SCALING | {"warmup_iterations": 13}, 4)])
def test_the_suggested_warmup_is_valid_with_the_decay_too(scaling: dict[str, Any], most: int) -> None:
    optimizer = {"decay_samples": 36, "schedule": "linear"}
    key = "training__batch_scaling__warmup_iterations"
    if not scaling:
        key, optimizer["learning_rate"], optimizer["warmup_samples"] = "training__optimizer__warmup_samples", 0.1, 104
    changes = {"training__train_samples": 96, "training__batch": {"global_batch_size": 8}}
    changes |= {"training__optimizer": optimizer, "training__batch_scaling": scaling or None}
    raw = changed(**changes)
    assert f"expected: at most {most}, or a longer training" in message(raw)
    section, last = key.removeprefix("training__").split("__")
    raw["training"][section] |= {last: most}
    validate_config(raw)
    raw["training"][section] |= {last: most + 1}
    assert "the decay would end before the warm-up" in message(raw)


def test_a_decay_that_ends_before_the_warmup_is_refused() -> None:
    raw = changed(
        training__optimizer={"decay_samples": 24, "min_learning_rate": 1e-5},
        training__batch={"global_batch_size": 8},
        training__batch_scaling=SCALING,
    )
    assert (
        "training.optimizer.decay_samples 24: the decay would end before the warm-up, which ends after 32 samples (4 "
        "iterations), so the learning rate would drop in one step from its peak of 0.02 to 1e-05; expected: at least "
        "32, or a shorter warm-up"
    ) in message(raw)
    raw["training"]["optimizer"]["schedule"] = "constant"
    assert validate_config(raw).training.optimizer.decay_samples == 24
    raw["training"]["optimizer"] |= {"schedule": "linear", "decay_samples": 32}
    assert validate_config(raw).training.optimizer.decay_samples == 32


def test_a_warmup_that_is_longer_than_the_training_is_refused_in_a_stage_file() -> None:
    batch = {"global_batch_size": 8}
    config = validate_config(changed(training__optimizer={}, training__batch=batch, training__batch_scaling=SCALING))
    refuse_contradictions(config.model, config.training, where="train.json")
    short = config.training.model_copy(update={"train_samples": config.training.batch.global_batch_size})
    with pytest.raises(InputError, match="the warm-up takes 4 iterations, but the training has only 1,"):
        refuse_contradictions(config.model, short, where="train.json")


def test_a_warmup_in_iterations_over_too_many_batch_sizes_is_refused_at_once() -> None:
    ramp = {"start": 8, "increment": 8, "samples": 10**12}
    raw = changed(
        training__train_samples=10**13,
        training__batch={"micro_batch_size": 4, "global_batch_size": 8 * 10**9, "rampup": ramp},
        training__optimizer={},
        training__batch_scaling=SCALING | {"warmup_iterations": 10**12},
    )
    before = time.process_time()
    assert "gives 999999999 steps" in message(raw)
    assert time.process_time() - before < 5


def test_one_of_the_two_keys_states_the_learning_rate() -> None:
    text = message(changed(training__optimizer={"warmup_samples": 8}))
    assert "training.optimizer.learning_rate: missing; expected: a number above 0, for example 6e-05, or the" in text
    assert text.endswith("section training.batch_scaling instead")
    assert "learning_rate: missing" in message(changed(training__optimizer={"learning_rate": None}))
    text = message(changed(training__optimizer={"learning_rate": 0.5}, training__batch_scaling=SCALING))
    assert (
        "training: optimizer.learning_rate 0.5 and batch_scaling, which computes 0.0282843, both set the peak learning "
        "rate; expected: only one of them"
    ) in text


@pytest.mark.parametrize(("key", "value"), [("warmup_samples", 8), ("warmup_tokens", 1000)])
def test_one_key_states_the_warmup(key: str, value: int) -> None:
    raw = changed(training__optimizer={key: value}, training__batch_scaling=dict(SCALING))
    text = message(raw)
    assert (
        f"training: optimizer.{key} {value} and batch_scaling.warmup_iterations 4 both set the length of the warm-up; "
        "expected: only one of them"
    ) in text
    assert "1 problem" in text
    del raw["training"]["batch_scaling"]["warmup_iterations"]
    assert getattr(validate_config(raw).training.optimizer, key) == value


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        (SCALING | {"floor": 0.3, "cap": 0.2}, "batch_scaling.floor 0.3 exceeds batch_scaling.cap 0.2"),
        (SCALING | {"cap": 1e-4}, "optimizer.min_learning_rate 0.001 exceeds the learning rate of batch_scaling,"),
        (SCALING | {"rule": "linear"}, "training.batch_scaling.rule: 'linear' is not valid; expected: 'sqrt'"),
        (SCALING | {"base_batch": 0}, "training.batch_scaling.base_batch: 0 is not valid; expected: a whole number"),
        ({"base_batch": 8}, "training.batch_scaling.base_learning_rate: missing; expected: a number above 0"),
        ("sqrt", "training.batch_scaling: 'sqrt' is not valid; expected: a mapping with keys such as base_batch"),
        (SCALING | {"base_lr": 1}, "training.batch_scaling.base_lr: unknown key"),
    ],
)
def test_a_wrong_scaling_is_the_only_problem(scaling: Any, said: str) -> None:
    text = message(changed(training__optimizer={"min_learning_rate": 1e-3}, training__batch_scaling=scaling))
    assert said in text
    assert "1 problem" in text
