"""Make a tiny valid configuration."""

from __future__ import annotations

from typing import Any

from bloomery.checks.load_config import validate_config
from bloomery.config.run import RunConfig


def configuration(changes: dict[str, Any] | None = None, **tokenizer: Any) -> RunConfig:
    return validate_config(
        {
            "name": "test",
            "sources": [{"name": "s", "kind": "jsonl", "paths": ["x"]}],
            "tokenizer": tokenizer,
            "model": {"layers": 2, "hidden_size": 64, "heads": 4, "sequence_length": 128},
            "training": {"train_samples": 64, "batch": {"global_batch_size": 8}, "optimizer": {"learning_rate": 1e-3}},
        }
        | (changes or {})
    )
