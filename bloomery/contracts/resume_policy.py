"""The resume policy: which configuration keys may change when a training resumes from a checkpoint.

Every key of the training stage's configuration has a policy, and a test checks that the table is complete. The identity
of a checkpoint is the digest of the values of the keys that may never change. `training.resume.resolve_resume` checks
the other keys before any process starts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import Change, CheckpointManifest, step_name
from bloomery.contracts.index_manifest import IndexManifest
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.spec.batch_scaling import resolved_optimizer

SKIP = "training.skip"
TOKENIZER = "tokenizer"
"""Key of the tokenizer's digest in the table of policies. It is not a configuration key, but it has a policy, because
the tokenizer decides the samples' token ids."""
INITIAL, INITIAL_SOURCE = "initial.digest", "initial.source"
"""Keys of the digest and of the name of the checkpoint that the training started with. They are not configuration
keys."""


class Policy(StrEnum):
    """When a key may change."""

    FREE = "freely"
    """The key may change at any start, whatever `training.on_change` is."""
    BOUNDARY = "at a boundary"
    """The key may change at a checkpoint with `training.on_change: continue`. Past training stays valid, and later
    updates differ."""
    NEVER = "never"
    """The key may not change, because the checkpoint is not valid with a different value."""


@dataclass(frozen=True)
class Rule:
    """The policy of some configuration keys. The name of a section stands for all keys of the section."""

    keys: tuple[str, ...]
    policy: Policy
    why: str
    """Reason for the policy, shown in the documentation."""


def _of(section: str, *names: str) -> tuple[str, ...]:
    """Return the full paths of the keys `names` in `section`."""
    return tuple(f"{section}.{name}" for name in names)


RULES = (
    Rule(("name",), Policy.FREE, "a run's folder may be copied under a new name"),
    Rule(("seed",), Policy.NEVER, "the seed decided the initial weights and the order of the samples"),
    Rule((INITIAL,), Policy.NEVER, "the training started with the weights of the checkpoint with this digest"),
    Rule((INITIAL_SOURCE,), Policy.FREE, "the name is only shown; the digest decides which checkpoint it is"),
    Rule(
        ("training.initial_checkpoint",),
        Policy.FREE,
        "the folder may be moved, because its content is compared (`initial.digest`), and a resumed training does not "
        "read it",
    ),
    Rule((TOKENIZER,), Policy.NEVER, "the same token ids would mean different tokens"),
    Rule(
        _of("model", "family", "layers", "decoder_layers", "hidden_size", "heads", "feed_forward_size", "positions")
        + _of("model", "rotary_base", "activation", "tied_embeddings", "embedding_layernorm", "layer_norm_epsilon"),
        Policy.NEVER,
        "the saved weights fit only the network with the old values",
    ),
    Rule(
        _of("model", "sequence_length", "decoder_sequence_length"),
        Policy.NEVER,
        "the index is cut into samples of this length",
    ),
    Rule(("model.init_std",), Policy.NEVER, "this value decided the initial weights"),
    Rule(
        _of("model", "vocabulary_multiple", "padded_vocabulary_size", "masked_rows"),
        Policy.NEVER,
        "the checkpoint fixes the number of embedding rows for every layout",
    ),
    Rule(
        ("model.stable_attention",), Policy.BOUNDARY, "the network computes the same function with different rounding"
    ),
    Rule(
        _of("training", "train_samples", "train_tokens"),
        Policy.BOUNDARY,
        "the training ends at a different sample, and the schedules change",
    ),
    Rule(
        ("training.train_epochs",),
        Policy.FREE,
        "`training.train_samples` is computed from this key and has its own policy",
    ),
    Rule(
        ("training.parallel", "training.partition"),
        Policy.BOUNDARY,
        "weights and moments are redistributed to the new layout, and the loss is compared with the checkpoint's",
    ),
    Rule(
        ("training.batch", "training.curriculum"),
        Policy.BOUNDARY,
        "these values depend on the consumed samples, and new values apply from the checkpoint's position on",
    ),
    Rule(
        _of("training.optimizer", "kind", "momentum"),
        Policy.NEVER,
        "the saved optimizer state would not fit the new optimizer",
    ),
    Rule(
        _of("training.optimizer", "learning_rate", "min_learning_rate", "warmup_samples", "warmup_tokens")
        + _of("training.optimizer", "decay_samples", "decay_tokens", "schedule", "cooldown_samples", "cooldown_tokens"),
        Policy.BOUNDARY,
        "these values depend on the consumed samples or tokens, and new values apply from the checkpoint's position on",
    ),
    Rule(
        ("training.batch_scaling",),
        Policy.FREE,
        "`training.optimizer.learning_rate` and `training.optimizer.warmup_samples` are computed from this key and "
        "have their own policies",
    ),
    Rule(
        _of("training.optimizer", "beta1", "beta2", "epsilon", "weight_decay", "gradient_clipping"),
        Policy.BOUNDARY,
        "new values apply from the next update on, and the moments are kept",
    ),
    Rule(
        ("training.optimizer.lamb",),
        Policy.BOUNDARY,
        "new values apply from the next update on, and the moments are kept; a dialect with other moments is refused",
    ),
    Rule(("training.dropout",), Policy.BOUNDARY, "new probabilities apply from the next iteration on"),
    Rule(("training.precision",), Policy.NEVER, "the saved weights have the data type of the old precision"),
    Rule(
        ("training.loss_scale", "training.gradient_accumulation"),
        Policy.BOUNDARY,
        "new values apply from the next update on",
    ),
    Rule(("training.zero_stage",), Policy.FREE, "0 is treated like 1, and 2 and 3 are rejected, so nothing changes"),
    Rule(
        ("training.activation_checkpointing", "training.kernels", "training.threads_per_rank"),
        Policy.FREE,
        "only speed and memory change; the last digits of results may differ",
    ),
    Rule(
        _of(
            "training",
            "checkpoint",
            "validation",
            "segment",
            "preflight",
            "heartbeat",
            "energy",
            "on_change",
            "peak_tflops",
        ),
        Policy.FREE,
        "these values do not affect what the model learns",
    ),
    Rule(
        ("training.guards",),
        Policy.FREE,
        "new values apply from the next iteration on, and every skipped update and every roll-back is recorded",
    ),
    Rule(
        (SKIP,),
        Policy.FREE,
        "ranges may change for samples that were not read yet, but never for samples that were read",
    ),
)

POLICY_OF = {key: rule for rule in RULES for key in rule.keys}
"""Rule of each key or section in the table."""


@dataclass(frozen=True)
class Difference:
    """A configuration key whose value differs from the value in the checkpoint."""

    key: str
    before: Any
    after: Any
    policy: Policy

    def __str__(self) -> str:
        return f"{self.key}: {shown(self.before)} -> {shown(self.after)} (may change: {self.policy.value})"


def rule_of(key: str) -> Rule:
    """Return the rule of a key, or of the section or list that contains it. Raises KeyError if none has a rule."""
    parts = key.replace("[]", "").split(".")
    for length in range(len(parts), 0, -1):
        if (rule := POLICY_OF.get(".".join(parts[:length]))) is not None:
            return rule
    raise KeyError(f"no resume policy for {key}")


def identity(stage: TrainStage, index: IndexManifest) -> str:
    """Return the digest of the values of all keys whose policy is `never`.

    A training can only resume from a checkpoint with the same identity. Default values are not included, so that a key
    added by a later version does not change existing identities.
    """
    facts = {TOKENIZER: index.tokenizer_digest, **stage.model_dump(mode="json", exclude_defaults=True)}
    never = [key for key, rule in POLICY_OF.items() if rule.policy is Policy.NEVER]
    found = {key: value for key in never if (value := _value(facts, key)) is not None}
    return digest_json(found)


def continues(checkpoint: CheckpointManifest, own: str, index: IndexManifest) -> bool:
    """Whether a training with the identity `own` can resume from `checkpoint`.

    The identities must be equal, and `index` must begin with the samples that were read up to the checkpoint.
    """
    return checkpoint.identity == own and checkpoint.prefix == sample_prefix(index, checkpoint.consumed_samples)


def differences(checkpoint: CheckpointManifest, stage: TrainStage) -> list[Difference]:
    """Return the configuration keys whose values differ from those in the checkpoint, with the policy of each key.

    Raises:
        InputError: this version of Bloomery cannot read the configuration in the checkpoint.
    """
    before, after = _compared(saved_stage(checkpoint)), _compared(stage)
    found = [Difference(key, old, new, rule_of(key).policy) for key, old, new in _unequal(before, after)]
    return [_skip_in_what_was_read(each, checkpoint) if each.key == SKIP else each for each in found]


def changes_since(checkpoint: CheckpointManifest, stage: TrainStage) -> list[Change]:
    """Return the keys that changed since `checkpoint`, except those with the policy `freely`.

    Later manifests record these changes.
    """
    return [
        Change(iteration=checkpoint.iteration, key=each.key, before=each.before, after=each.after)
        for each in differences(checkpoint, stage)
        if each.policy is not Policy.FREE
    ]


def saved_stage(checkpoint: CheckpointManifest) -> TrainStage:
    """Return the configuration that a checkpoint was saved with.

    Raises:
        InputError: this version of Bloomery cannot read the configuration in the checkpoint.
    """
    try:
        return TrainStage.model_validate(checkpoint.config)
    except ValidationError as error:
        raise InputError(
            f"this version of Bloomery cannot read the checkpoint's configuration: {wrong_values(error, TrainStage)}",
            where=f"{step_name(checkpoint.iteration)}/manifest.json",
            expected="a checkpoint of this version; or resume with the version of Bloomery that saved this checkpoint",
        ) from error


def policy_table() -> str:
    """Return the policies as a Markdown table with one row per rule."""
    lines = ["| keys | may change | because |", "|---|---|---|"]
    for rule in RULES:
        keys = ", ".join(f"`{key}`" for key in rule.keys)
        lines.append(f"| {keys} | {rule.policy.value} | {rule.why} |")
    return "\n".join(lines) + "\n"


def _skip_in_what_was_read(change: Difference, checkpoint: CheckpointManifest) -> Difference:
    """Set the policy to `never` if `training.skip` changed for samples before the checkpoint's position.

    Whether those samples were trained on can no longer change. Ranges after the position may change.
    """
    read = checkpoint.consumed_samples
    cut = [
        [(each["from_sample"], min(each["to_sample"], read)) for each in ranges if each["from_sample"] < read]
        for ranges in (change.before, change.after)
    ]
    if cut[0] == cut[1]:
        return change
    return Difference(change.key, change.before, change.after, Policy.NEVER)


def _compared(stage: TrainStage) -> dict[str, Any]:
    """Return the values of all keys, with the learning rate and the warm-up that `training.batch_scaling` computes.

    Without an initial checkpoint, its digest and its name are null.
    """
    values = stage.model_dump(mode="json")
    optimizer = resolved_optimizer(stage.training)
    values["training"]["optimizer"] |= {
        "learning_rate": optimizer.learning_rate,
        "warmup_samples": optimizer.warmup_samples,
    }
    section, digest = INITIAL.split(".")
    values[section] = values[section] or {digest: None, INITIAL_SOURCE.split(".")[1]: None}
    return values


def _unequal(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Return (key path, old value, new value) for each key whose values differ."""
    found = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _unequal(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append((f"{prefix}{key}", old, new))
    return found


def _value(facts: dict[str, Any], key: str) -> Any:
    """Return the value at a key's path, or None if the path does not exist."""
    value: Any = facts
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def shown(value: Any) -> str:
    """Format a key's value for messages: strings unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
