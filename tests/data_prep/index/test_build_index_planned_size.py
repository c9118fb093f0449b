"""Compare the planned bytes of an index with those of an index that is built from texts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny_run import configuration

from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.index_size import index_size, planned_text, planned_validation_sets


@pytest.mark.parametrize(("samples", "length", "share"), [(700, 16, 0.2), (120, 64, 0.4), (4000, 32, 0.1)])
def test_a_real_index_has_the_planned_size(tmp_path: Path, run: Any, samples: int, length: int, share: float) -> None:
    shutil.copytree(run.folder, tmp_path / "run")
    run = type(run)(tmp_path / "run", run.parts)
    run.build(train_samples=samples, sequence_length=length, validation_share=share)
    manifest = read_index_manifest(run.index / "index.json")
    text = {
        "corpus_tokens": sum(file.tokens for file in manifest.token_files),
        "corpus_documents": sum(file.documents for file in manifest.token_files),
        "corpus_languages": len(run.weights),
    }
    config = configuration(
        {
            "plan": text,
            "sources": [{"name": f"s{number}", "kind": "jsonl", "paths": ["x"]} for number in range(len(run.parts))],
            "index": {"validation_share": share},
            "model": {"layers": 2, "hidden_size": 64, "heads": 4, "sequence_length": length},
            "training": {
                "train_samples": samples,
                "batch": {"global_batch_size": 4},
                "optimizer": {"learning_rate": 1e-3},
                "validation": {"samples": 8},
            },
        },
        vocabulary_size=400,
        reserved_tokens=4,
    )
    planned = planned_text(config)
    assert (planned.tokens, planned.documents, planned.assumed) == (text["corpus_tokens"], text["corpus_documents"], {})
    sets = planned_validation_sets(config, planned)
    assert abs(len(sets) - len(manifest.validation)) <= 1
    size = index_size(config, planned, sets)
    # `verified.json` is written by another command.
    real = sum(path.stat().st_size for path in run.index.rglob("*") if path.is_file())
    assert size.total == pytest.approx(real, rel=0.05)
    assert size.tokens == sum(path.stat().st_size for path in run.index.glob("tokens/**/*.bin"))
