"""Length of a training that is stated in epochs: estimate its samples before the checks, and check the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomery.config.section import Contradiction
from bloomery.config.training import UNKNOWN_SAMPLES
from bloomery.spec.epochs import samples_of_epochs

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

_EPOCHS, _SAMPLES, _TOKENS = "training.train_epochs", "training.train_samples", "plan.corpus_tokens"


def with_train_samples(raw: Any) -> Any:
    """Return a parsed configuration, and add an estimated `training.train_samples` if it states only `train_epochs`.

    Without a usable estimate of the tokens, the number is `UNKNOWN_SAMPLES`, and `length_contradictions` or the
    validation reports the problem.
    """
    training = raw.get("training") if isinstance(raw, dict) else None
    if not isinstance(training, dict) or training.get("train_epochs") is None or "train_samples" in training:
        return raw
    values = (training["train_epochs"], _value(raw, "plan", "corpus_tokens"), _value(raw, "model", "sequence_length"))
    samples = UNKNOWN_SAMPLES
    if all(isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**63 for value in values):
        samples = max(UNKNOWN_SAMPLES, samples_of_epochs(*values))
    return raw | {"training": training | {"train_samples": samples}}


def without_train_samples(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a run without the estimated `training.train_samples` if `train_epochs` states the length."""
    if values["training"].get("train_epochs") is None:
        return values
    return values | {"training": {key: value for key, value in values["training"].items() if key != "train_samples"}}


def length_contradictions(config: RunConfig, raw: Any) -> list[Contradiction]:
    """Find a length that is stated twice, or in epochs without an estimate of the tokens.

    Args:
        config: the validated configuration, with the estimate of `with_train_samples`.
        raw: the parsed configuration without that estimate.
    """
    epochs, training = config.training.train_epochs, _value(raw, "training")
    if epochs is None:
        return []
    if isinstance(training, dict) and "train_samples" in training:
        message = (
            f"{_EPOCHS} {epochs:g} and {_SAMPLES} {training['train_samples']} both state the length of the training"
        )
        return [Contradiction(message, (_EPOCHS, _SAMPLES), epochs, "only one of them")]
    if config.plan.corpus_tokens is None:
        message = f"{_TOKENS}: missing, but {_EPOCHS} {epochs:g} needs it to estimate the length of the training"
        right = (
            "an estimate of the number of tokens in the corpus, such as the bytes of all texts divided by 4; the index "
            "determines the exact length of the training"
        )
        return [Contradiction(message, (_TOKENS, _EPOCHS), None, right)]
    mixture = config.corpus.mixture
    if mixture.max_epochs is not None and mixture.budget_bytes is None:
        key = "corpus.mixture.budget_bytes"
        message = (
            f"{key}: missing, but corpus.mixture.max_epochs {mixture.max_epochs:g} needs it, because {_EPOCHS} gives "
            "no number of samples before the index is built"
        )
        right = "an estimate of the number of bytes of text that the training reads"
        return [Contradiction(message, (key, "corpus.mixture.max_epochs", _EPOCHS), None, right)]
    return []


def explained(found: Contradiction, config: RunConfig) -> Contradiction:
    """Return a contradiction that also says where an estimated `train_samples` comes from."""
    training = config.training
    if training.train_epochs is None or _SAMPLES not in found.keys:
        return found
    message = (
        f"{found.message} (train_samples {training.train_samples} is an estimate: {training.train_epochs:g} epochs of "
        f"{_TOKENS} {config.plan.corpus_tokens})"
    )
    keys = (*found.keys, _EPOCHS, _TOKENS)
    return Contradiction(message, keys, found.value, found.suggestion)


def _value(raw: Any, *path: str) -> Any:
    """Return the value at `path` of a parsed configuration, or None if it is absent."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw
