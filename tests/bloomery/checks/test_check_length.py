"""Test a training whose length is stated in epochs: the estimate of its samples, and the errors for contradictions."""

from __future__ import annotations

from typing import Any

import yaml
from changed_sample import changed, message

from bloomery.checks.load_config import validate_config, written_values


def in_epochs(epochs: object = 2.5, tokens: object = 100_000, **changes: Any) -> dict[str, Any]:
    """Return the sample's configuration with a length in epochs."""
    raw = changed(training__train_epochs=epochs, plan__corpus_tokens=tokens, **changes)
    del raw["training"]["train_samples"]
    return raw


def test_the_estimate_of_the_tokens_gives_the_samples_of_the_plan() -> None:
    config = validate_config(in_epochs())
    assert config.training.train_samples == (250_000 - 1) // config.model.sequence_length


def test_a_length_in_epochs_needs_an_estimate_of_the_tokens() -> None:
    text = message(in_epochs(tokens=None))
    assert "1 problem\n" in text
    assert "plan.corpus_tokens: missing, but training.train_epochs 2.5 needs it" in text


def test_a_length_is_stated_only_once() -> None:
    text = message(changed(training__train_epochs=2, plan__corpus_tokens=10**6))
    assert "training.train_epochs 2 and training.train_samples" in text
    assert "expected: only one of them" in text


def test_a_missing_length_names_both_keys() -> None:
    raw = changed()
    del raw["training"]["train_samples"]
    assert "training.train_samples: missing" in message(raw)
    assert "training.train_epochs" in message(raw)


def test_wrong_epochs_are_explained() -> None:
    assert "training.train_epochs: 0 is not valid; expected: a number above 0" in message(in_epochs(epochs=0))
    assert "training.train_epochs: 'two' is not valid" in message(in_epochs(epochs="two"))
    assert "plan.corpus_tokens: 'many' is not valid" in message(in_epochs(tokens="many"))


def test_contradictions_say_that_the_length_is_an_estimate() -> None:
    text = message(in_epochs(tokens=1000))
    assert "batch.rampup.samples 320 exceeds train_samples" in text
    assert "is an estimate: 2.5 epochs of plan.corpus_tokens 1000" in text


def test_a_cap_on_epochs_needs_the_bytes_of_the_training() -> None:
    assert "corpus.mixture.budget_bytes: missing" in message(in_epochs(corpus__mixture__max_epochs=4))
    validate_config(in_epochs(corpus__mixture={"max_epochs": 4, "budget_bytes": 10**6}))


def test_the_shown_values_are_a_valid_configuration(tmp_path: Any) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(in_epochs()))
    shown = written_values(path)
    assert "train_samples" not in shown["training"]
    assert validate_config(shown) == validate_config(in_epochs())
