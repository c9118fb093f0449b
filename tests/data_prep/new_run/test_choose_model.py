"""Test the choice of a model that fits the amount of text, the machine and the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import validate_config
from bloomery.spec.text_size import bytes_per_token
from data_prep.new_run.choose_model import (
    SHAPES,
    Limits,
    choose_model,
    fits_memory,
    flops_per_token,
    training_values,
    vocabulary_for,
)
from data_prep.new_run.machine import Machine

LAPTOP = Machine(cores=8, memory_bytes=16 << 30)
NODE = Machine(cores=64, memory_bytes=512 << 30, gpus=8, gpu_name="X", gpu_memory_bytes=80 << 30, has_bf16=True)
HOUR = Limits(machine=LAPTOP, flops=1e11, seconds=3600.0, text_bytes=10**8, vocabulary=8192)


def test_more_time_gives_a_larger_model_and_never_more_than_the_time() -> None:
    choices = [choose_model(replace(HOUR, seconds=seconds)) for seconds in (60.0, 3600.0, 36_000.0, 360_000.0)]
    sizes = [choice.parameters for choice in choices]
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]
    for choice, seconds in zip(choices, (60.0, 3600.0, 36_000.0, 360_000.0), strict=True):
        assert choice.seconds <= 1.001 * seconds


def test_a_model_larger_than_the_smallest_reads_20_tokens_a_parameter_and_at_most_four_epochs() -> None:
    choice = choose_model(replace(HOUR, seconds=36_000.0))
    assert choice.shape != SHAPES[0]
    assert choice.tokens >= 20 * choice.parameters
    assert choice.epochs <= 4


def test_a_small_corpus_gets_a_small_model_whatever_the_time() -> None:
    choice = choose_model(replace(HOUR, text_bytes=10**6, seconds=1e9))
    assert choice.shape == SHAPES[0]
    assert choice.epochs == 4


def test_the_number_of_epochs_is_kept_even_if_the_time_is_short() -> None:
    choice = choose_model(replace(HOUR, seconds=1.0, epochs=2.0))
    assert choice.epochs == 2
    assert choice.tokens == pytest.approx(2 * 10**8 / bytes_per_token(8192), rel=1e-6)
    assert choice.seconds > 1


def test_the_number_of_parameters_and_the_length_are_kept() -> None:
    choice = choose_model(replace(HOUR, parameters=30_000_000, sequence_length=64))
    assert 15_000_000 < choice.parameters < 60_000_000
    assert choice.shape.sequence_length == 64


def test_a_model_must_fit_the_memory() -> None:
    tiny = replace(LAPTOP, memory_bytes=1 << 28)
    choice = choose_model(replace(HOUR, machine=tiny, parameters=10**10))
    assert fits_memory(choice.parameters, tiny)
    assert not fits_memory(10**10, LAPTOP)
    assert fits_memory(10**9, NODE)


def test_the_vocabulary_grows_with_the_text() -> None:
    assert [vocabulary_for(size) for size in (10**6, 10**8, 10**13)] == [4096, 16_384, 250_680]


def test_operations_of_a_token_grow_with_the_shape() -> None:
    counts = [flops_per_token(shape, 16_384) for shape in SHAPES]
    assert counts == sorted(counts)


@pytest.mark.parametrize("machine", [LAPTOP, NODE])
@pytest.mark.parametrize("seconds", [10.0, 3600.0, 1e6])
@pytest.mark.parametrize("languages", [1, 45])
def test_the_training_is_valid_for_every_machine_and_time(machine: Machine, seconds: float, languages: int) -> None:
    flops = 8e14 if machine.gpus else 1e11
    choice = choose_model(replace(HOUR, machine=machine, seconds=seconds, flops=flops, text_bytes=10**10))
    training = training_values(choice, machine, languages)
    raw = {
        "name": "x",
        "sources": [{"name": "s", "kind": "jsonl", "paths": ["x"]}],
        "tokenizer": {"vocabulary_size": 8192},
        "model": choice.shape.values(),
        "training": training,
    }
    try:
        config = validate_config(raw)
    except ConfigError as error:
        pytest.fail(str(error))
    checks = config.training.train_samples / training["batch"]["global_batch_size"]
    checks /= training["validation"]["every_iterations"]
    # Validation of a sample, which is only a forward pass, costs a third of its training. Each validation reads at
    # least one sample of each language.
    validated = checks * languages * training["validation"]["samples"] / 3
    least = checks * languages / 3
    assert validated <= max(0.101 * training["train_samples"], least * 1.001)
