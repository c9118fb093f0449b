"""What a checkpoint was trained from. Two trainings with the same identity may share checkpoints; others never do."""

from __future__ import annotations

from typing import Any

from bloomery.base.digest import digest_json
from bloomery.config.stages import TrainStage
from bloomery.contracts.index import IndexManifest

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
    """Everything that decides the losses of the run, as JSON."""
    training = stage.training.model_dump(mode="json", exclude=set(FREE_KEYS))
    return {
        "seed": stage.seed,
        "model": stage.model.model_dump(mode="json"),
        "training": training,
        "index": index.digest,
        "tokenizer": index.tokenizer_digest,
    }


def identity(stage: TrainStage, index: IndexManifest) -> str:
    """Digest of `identity_facts`."""
    return digest_json(identity_facts(stage, index))


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
