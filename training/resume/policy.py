"""Which keys may change when a training goes on from a checkpoint, and what has changed since one was saved.

Every key of the training's part of the configuration has a policy; a test holds the table complete. The identity of a
checkpoint is the digest of what may never change; whether the rest may is settled before a process starts
(`training.resume.resolve_resume`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import Change, CheckpointManifest, step_name
from bloomery.contracts.index import IndexManifest
from bloomery.contracts.sample_prefix import sample_prefix

SKIP = "training.skip"
TOKENIZER = "tokenizer"
"""Key of the tokenizer's digest: no key of the training, but what its samples are made of."""


class Policy(StrEnum):
    """When a key may change."""

    FREE = "free"
    """At any start: it does not decide what is learnt."""
    BOUNDARY = "at a boundary"
    """From a checkpoint on, with `training.on_change: continue`: what was learnt stays valid, what follows is other."""
    NEVER = "never"
    """The checkpoint means nothing under another value."""


@dataclass(frozen=True)
class Rule:
    """The policy of some keys. A section's name stands for all keys in it."""

    keys: tuple[str, ...]
    policy: Policy
    why: str
    """A phrase for the documentation and for errors."""


def _of(section: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{section}.{name}" for name in names)


RULES = (
    Rule(("name",), Policy.FREE, "a run's folder may be copied"),
    Rule(("seed",), Policy.NEVER, "the initial weights and the order of the samples came from it"),
    Rule((TOKENIZER,), Policy.NEVER, "the same ids would be other words"),
    Rule(
        _of("model", "family", "layers", "decoder_layers", "hidden_size", "heads", "feed_forward_size", "positions")
        + _of("model", "rotary_base", "activation", "tied_embeddings", "embedding_layernorm", "layer_norm_epsilon"),
        Policy.NEVER,
        "the weights are of this network",
    ),
    Rule(
        _of("model", "sequence_length", "decoder_sequence_length"),
        Policy.NEVER,
        "the index is cut into samples of this length",
    ),
    Rule(("model.init_std",), Policy.NEVER, "the weights began with it"),
    Rule(
        _of("model", "vocabulary_multiple", "padded_vocabulary_size"),
        Policy.NEVER,
        "the checkpoint has its rows already; another tensor-parallel size keeps them",
    ),
    Rule(("model.stable_attention",), Policy.BOUNDARY, "the same function, rounded otherwise"),
    Rule(_of("training", "train_samples", "train_tokens"), Policy.BOUNDARY, "end and schedule move"),
    Rule(
        ("training.parallel", "training.partition"),
        Policy.BOUNDARY,
        "another layout: weights and moments are redistributed, and the loss is compared with that of the checkpoint",
    ),
    Rule(
        ("training.batch", "training.curriculum"),
        Policy.BOUNDARY,
        "functions of the consumed samples: the new ones hold from the checkpoint's position on",
    ),
    Rule(_of("training.optimizer", "kind", "momentum"), Policy.NEVER, "the optimizer's state is of another kind"),
    Rule(
        _of("training.optimizer", "learning_rate", "min_learning_rate", "warmup_samples", "warmup_tokens")
        + _of("training.optimizer", "decay_samples", "decay_tokens", "schedule", "cooldown_samples", "cooldown_tokens"),
        Policy.BOUNDARY,
        "functions of the consumed samples or tokens: the new ones hold from the checkpoint's position on",
    ),
    Rule(
        _of("training.optimizer", "beta1", "beta2", "epsilon", "weight_decay", "gradient_clipping"),
        Policy.BOUNDARY,
        "the next update takes the new value, the moments stay",
    ),
    Rule(("training.precision",), Policy.NEVER, "weights and master weights are kept in other types"),
    Rule(
        ("training.loss_scale", "training.gradient_accumulation"),
        Policy.BOUNDARY,
        "the next update takes the new value",
    ),
    Rule(("training.zero_stage",), Policy.FREE, "0 runs as 1"),
    Rule(
        ("training.activation_checkpointing", "training.kernels", "training.threads_per_rank"),
        Policy.FREE,
        "the same function, faster or in less memory; the last digits may differ",
    ),
    Rule(
        _of("training", "checkpoint", "validation", "segment", "guards", "energy", "on_change", "peak_tflops"),
        Policy.FREE,
        "beside learning",
    ),
    Rule(
        (SKIP,),
        Policy.FREE,
        "for samples that were not read yet; in what was read the ranges stay as they were",
    ),
)

POLICY_OF = {key: rule for rule in RULES for key in rule.keys}
"""Rule of each key or section in the table."""


@dataclass(frozen=True)
class Difference:
    """A key whose value is not that of the checkpoint."""

    key: str
    before: Any
    after: Any
    policy: Policy

    def __str__(self) -> str:
        return f"{self.key}: {shown(self.before)} -> {shown(self.after)} ({self.policy.value})"


def rule_of(key: str) -> Rule:
    """The rule of a key, or of a section or list that holds it. Raises KeyError: the table lacks it."""
    parts = key.replace("[]", "").split(".")
    for length in range(len(parts), 0, -1):
        if (rule := POLICY_OF.get(".".join(parts[:length]))) is not None:
            return rule
    raise KeyError(f"no resume policy for {key}")


def identity(stage: TrainStage, index: IndexManifest) -> str:
    """Digest of what a checkpoint can never be continued without: the values of all keys whose policy is `never`.

    Values that are a key's default are left out, so that a key that a later version adds changes no old identity.
    """
    facts = {TOKENIZER: index.tokenizer_digest, **stage.model_dump(mode="json", exclude_defaults=True)}
    never = [key for key, rule in POLICY_OF.items() if rule.policy is Policy.NEVER]
    found = {key: value for key in never if (value := _value(facts, key)) is not None}
    return digest_json(found)


def continues(checkpoint: CheckpointManifest, own: str, index: IndexManifest) -> bool:
    """Whether a training of identity `own` can go on from `checkpoint`: what `index` begins with is what was read."""
    return checkpoint.identity == own and checkpoint.prefix == sample_prefix(index, checkpoint.consumed_samples)


def differences(checkpoint: CheckpointManifest, stage: TrainStage) -> list[Difference]:
    """Keys of the configuration that differ from the checkpoint's, with the policy of each.

    Raises InputError: another version saved the checkpoint, with keys that this one does not know.
    """
    before, after = saved_stage(checkpoint).model_dump(mode="json"), stage.model_dump(mode="json")
    found = [Difference(key, old, new, rule_of(key).policy) for key, old, new in _unequal(before, after)]
    return [_skip_in_what_was_read(each, checkpoint) if each.key == SKIP else each for each in found]


def changes_since(checkpoint: CheckpointManifest, stage: TrainStage) -> list[Change]:
    """What a manifest must record when the training goes on: what is learnt from `checkpoint` on differs by these."""
    return [
        Change(iteration=checkpoint.iteration, key=each.key, before=each.before, after=each.after)
        for each in differences(checkpoint, stage)
        if each.policy is not Policy.FREE
    ]


def saved_stage(checkpoint: CheckpointManifest) -> TrainStage:
    """The configuration that saved a checkpoint. Raises InputError: it is of another version."""
    try:
        return TrainStage.model_validate(checkpoint.config)
    except ValidationError as error:
        raise InputError(
            f"the configuration that saved {step_name(checkpoint.iteration)} is of another version: {error}",
            where="its manifest.json",
            expected="the version that saved it",
        ) from error


def policy_table() -> str:
    """The table in Markdown, a line for each rule."""
    lines = ["| keys | may change | because |", "|---|---|---|"]
    for rule in RULES:
        keys = ", ".join(f"`{key}`" for key in rule.keys)
        lines.append(f"| {keys} | {rule.policy.value} | {rule.why} |")
    return "\n".join(lines) + "\n"


def _skip_in_what_was_read(change: Difference, checkpoint: CheckpointManifest) -> Difference:
    """`training.skip` may change behind the checkpoint's position; before it the samples were trained, or were not."""
    read = checkpoint.consumed_samples
    cut = [
        [(each["from_sample"], min(each["to_sample"], read)) for each in ranges if each["from_sample"] < read]
        for ranges in (change.before, change.after)
    ]
    if cut[0] == cut[1]:
        return change
    return Difference(change.key, change.before, change.after, Policy.NEVER)


def _unequal(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> list[tuple[str, Any, Any]]:
    """(key path, old value, new value) of each key whose values differ."""
    found = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _unequal(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append((f"{prefix}{key}", old, new))
    return found


def _value(facts: dict[str, Any], key: str) -> Any:
    """The value at a key's path; None where it is not there."""
    value: Any = facts
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def shown(value: Any) -> str:
    """A value of a key as people write it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
