"""What a checkpoint was trained from.

A training goes on from checkpoints of the same identity (model, layout, schedule, tokenizer) whose samples an index of
now begins with: the index may change behind what was read, and nothing else.
"""

from __future__ import annotations

from typing import Any

from bloomery.base.digest import digest_json
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest
from bloomery.contracts.index import IndexManifest
from bloomery.contracts.prefix import sample_prefix

FREE_KEYS = (
    "activation_checkpointing",
    "checkpoint",
    "on_change",
    "peak_tflops",
    "segment",
    "threads_per_rank",
    "validation",
)
"""Keys of `training` that may change between segments: they do not change what is learnt."""


def identity_facts(stage: TrainStage, index: IndexManifest) -> dict[str, Any]:
    """Everything but the samples that decides the losses of the run, as JSON."""
    training = stage.training.model_dump(mode="json", exclude=set(FREE_KEYS))
    return {
        "seed": stage.seed,
        "model": stage.model.model_dump(mode="json"),
        "training": training,
        "tokenizer": index.tokenizer_digest,
    }


def identity(stage: TrainStage, index: IndexManifest) -> str:
    """Digest of `identity_facts`."""
    return digest_json(identity_facts(stage, index))


def continues(checkpoint: CheckpointManifest, own: str, index: IndexManifest) -> bool:
    """Whether a training of identity `own` over `index` may go on from `checkpoint`."""
    return checkpoint.identity == own and checkpoint.prefix == sample_prefix(index, checkpoint.consumed_samples)


def differences(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> list[str]:
    """Key paths whose values differ, each as `path: old -> new`."""
    found = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append(f"{prefix}{key}: {old} -> {new}")
    return found
