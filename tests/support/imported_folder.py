"""Write the folder of an imported model without its weights: the files that a workflow reads before it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_json
from bloomery.checkpoint.write_checkpoint import first_manifest
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, write_manifest
from bloomery.contracts.initial_checkpoint import IMPORT_NAME, imported_checkpoint
from bloomery.contracts.sample_prefix import SamplePrefix


def write_imported_folder(folder: Path, model: dict[str, Any], entries: int, rows: int) -> CheckpointManifest:
    """Write the record of the import, an empty tokenizer.json and the manifest of the checkpoint.

    `model` is the section `model`, `entries` is the size of the tokenizer, and `rows` are the rows of the embedding.
    """
    values: dict[str, Any] = {
        "name": "imported",
        "seed": 0,
        "model": model,
        "training": {
            "train_samples": 1,
            "batch": {"global_batch_size": 1},
            "optimizer": {"learning_rate": 1e-5},
        },
    }
    stage = TrainStage.model_validate(values)
    manifest = first_manifest(
        stage,
        identity="0" * 32,
        prefix=SamplePrefix(samples=0, stages=[], datasets={}),
        vocabulary_size=entries,
        vocabulary_rows=rows,
        versions={},
    )
    imported_checkpoint(folder).mkdir(parents=True)
    write_manifest(imported_checkpoint(folder), manifest)
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer/tokenizer.json").write_bytes(b"")
    write_json(
        folder / IMPORT_NAME,
        {
            "format": 1,
            "source": "owner/model",
            "endpoint": "http://hub",
            "repository": "owner/model",
            "commit": "0123abc",
            "architecture": "BloomForCausalLM",
            "vocabulary_rows": rows,
            "files": {},
        },
    )
    return manifest
