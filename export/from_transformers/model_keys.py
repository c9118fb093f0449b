"""Write the keys of a configuration that trains an imported model further, to be copied into the YAML of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bloomery.base.atomic import write_bytes
from bloomery.config.model import ModelConfig


def write_model_keys(path: Path, source: str, model: ModelConfig, entries: int, folder: Path) -> None:
    """Write the keys to `path`.

    Args:
        path: file to write.
        source: model that was imported, for a comment.
        model: section `model` of the imported network.
        entries: number of entries of its tokenizer.
        folder: imported folder, as the keys name it.
    """
    keys: dict[str, Any] = {
        "tokenizer": {"existing": str(folder / "tokenizer"), "vocabulary_size": entries},
        "model": model.model_dump(mode="json", exclude_defaults=True),
        "training": {"initial_checkpoint": str(folder)},
    }
    assert model.padded_vocabulary_size is not None
    rows = model.padded_vocabulary_size - model.masked_rows
    text = (
        f"# Keys that train {source} further. Copy them into the YAML of a run.\n"
        "# model.padded_vocabulary_size must be a multiple of training.parallel.tensor. It is\n"
        f"# {rows} + model.masked_rows, because the model has {rows} rows.\n"
        + yaml.safe_dump(keys, sort_keys=False, allow_unicode=True)
    )
    write_bytes(path, text.encode())
