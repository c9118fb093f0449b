"""Claim: the planned bytes of a checkpoint, of the logs and of the token index are within 5 % of the real ones.

    python bench/planned_sizes.py > bench/results/planned_sizes.json       # takes about 10 minutes

Each shape is a run of the workflow, from generated texts to the end of the training, over gloo on this machine. The
plan is computed from the run's configuration and from three numbers that no plan can know: the tokens, documents and
languages of the clean corpus (`plan.corpus_*`). These numbers are read from the run's index.json. The exit code is 1 if
a figure deviates by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from _support import ROOT, machine, report, workflow_command, workflow_environment

from bloomery.checks.load_config import validate_config
from bloomery.config.run import RunConfig
from bloomery.contracts.checkpoint import step_folders
from bloomery.contracts.disk_use import DiskUse, disk_use
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths

LIMIT = 0.05
SENTENCE = re.compile(r"(?<=[.!?।。۔])\s+")

SHAPES: dict[str, dict[str, Any]] = {
    "tensor 1, bf16, Adam": {},
    "tensor 2, bf16, Adam, curriculum": {
        "training": {"parallel": {"tensor": 2}, "curriculum": {"start_length": 16, "samples": 200}},
    },
    "pipeline 2, fp32, Adam, 4,096 entries": {
        "tokenizer": {"vocabulary_size": 4096},
        "training": {"parallel": {"pipeline": 2}, "precision": "fp32"},
    },
    "data 2, fp16, Adam": {"training": {"parallel": {"data": 2}, "precision": "fp16"}},
    "data 2, bf16, SGD with momentum": {
        "training": {"parallel": {"data": 2}, "optimizer": {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9}},
    },
    "tensor 2, data 2, fp32, SGD, untied, SwiGLU": {
        "model": {"tied_embeddings": False, "activation": "swiglu", "positions": "learned"},
        "training": {
            "parallel": {"tensor": 2, "data": 2},
            "precision": "fp32",
            "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
    },
    "tensor 2, pipeline 2, bf16, 6 layers, 600 documents a language": {
        "documents": 600,
        "model": {"layers": 6, "hidden_size": 128, "sequence_length": 128},
        "training": {"parallel": {"tensor": 2, "pipeline": 2}},
    },
    "one language, 10,000 iterations, 10 segments": {
        "languages": ["fr"],
        "documents": 2000,
        "model": {"layers": 1, "hidden_size": 32, "heads": 2, "sequence_length": 32},
        "training": {
            "train_samples": 20_000,
            "batch": {"micro_batch_size": 2, "global_batch_size": 2},
            "checkpoint": {"every_iterations": 1000},
            "validation": {"every_iterations": 500, "samples": 4},
            "segment": {"iterations": 1000},
        },
    },
}
LANGUAGES = ["en", "fr", "es", "pt", "ar", "hi", "vi", "sw"]


def configuration(shape: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a shape, with the name `sizes` and the source `texts.jsonl`."""
    values: dict[str, Any] = {
        "name": "sizes",
        "seed": 3,
        "sources": [
            {
                "name": "texts",
                "kind": "jsonl",
                "paths": ["texts.jsonl"],
                "language_field": "language",
                "id_field": "id",
                "licence": "Apache-2.0",
                "trust_language": True,
            }
        ],
        "corpus": {"judge": {"preset": "none"}, "dedup": {"near": {"enabled": False}}},
        "tokenizer": {"vocabulary_size": 1024, "reserved_tokens": 16},
        "index": {"validation_share": 0.1},
        "model": {"layers": 2, "hidden_size": 64, "heads": 4, "sequence_length": 64},
        "training": {
            "train_samples": 800,
            "batch": {"micro_batch_size": 2, "global_batch_size": 8},
            "optimizer": {"learning_rate": 1e-3, "warmup_samples": 80},
            "checkpoint": {"every_iterations": 50},
            "validation": {"every_iterations": 25, "samples": 4},
        },
    }
    for section in ("tokenizer", "model", "training"):
        values[section] |= shape.get(section, {})
    return values


def write_texts(path: Path, languages: list[str], documents: int) -> None:
    """Write documents of 1 to 20 sentences, drawn from the texts of the embedded sample."""
    draw = random.Random(1)
    with path.open("w", encoding="utf-8") as handle:
        for language in languages:
            rows = (ROOT / f"config/sample/{language}.jsonl").read_text(encoding="utf-8").splitlines()
            sentences = [each for row in rows for each in SENTENCE.split(json.loads(row)["text"]) if each.strip()]
            for number in range(documents):
                text = " ".join(draw.choice(sentences) for _ in range(draw.randint(1, 20)))
                row = {"id": f"{language}-{number}", "language": language, "text": text}
                handle.write(json.dumps(row, ensure_ascii=False) + "\n")


def train(folder: Path, config: dict[str, Any]) -> RunPaths:
    """Run the workflow in `folder` to the end of the training."""
    (folder / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = workflow_command(folder, folder / "run.yaml", "train")
    subprocess.run(command, stdout=sys.stderr, cwd=folder, env=workflow_environment(), check=True)
    return RunPaths(folder / "runs" / "sizes")


def planned(config: dict[str, Any], paths: RunPaths) -> DiskUse:
    """Return the plan's sizes, with the amount of text that index.json states."""
    index = read_index_manifest(paths.index_manifest)
    text = {
        "corpus_tokens": sum(file.tokens for file in index.token_files),
        "corpus_documents": sum(file.documents for file in index.token_files),
        "corpus_languages": len({entry.language for entry in (*index.train, *index.validation)}),
    }
    run: RunConfig = validate_config(config | {"plan": text})
    return disk_use(run)


def real(paths: RunPaths) -> dict[str, int]:
    """Return the bytes of the newest checkpoint, of the logs and of the index."""
    logs = ("train/logs", "train/segments", "logs/train_segment", "benchmarks/train_segment")
    return {
        "checkpoint": _bytes(step_folders(paths.checkpoints)[0]),
        "logs": sum(_bytes(paths.run / each) for each in logs),
        "index": _bytes(paths.index),
    }


def _bytes(folder: Path) -> int:
    """Return the bytes of all files in `folder`. A file with several hard links counts once."""
    found = os.walk(folder, followlinks=True)
    files = [(Path(place) / name).stat() for place, _, names in found for name in names]
    return sum({(file.st_dev, file.st_ino): file.st_size for file in files}.values())


def compare(shape: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Train a run of this shape. Return the planned and the real bytes of each artefact, and the deviation."""
    config = configuration(shape)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder / "texts.jsonl", shape.get("languages", LANGUAGES), shape.get("documents", 40))
        paths = train(folder, config)
        plan = planned(config, paths)
        print(json.dumps(asdict(plan)), file=sys.stderr)
        sizes = {"checkpoint": plan.checkpoint, "logs": plan.logs, "index": plan.index}
        return {
            what: {"planned": sizes[what], "real": found, "deviation": round(sizes[what] / found - 1, 4)}
            for what, found in real(paths).items()
        }


def main() -> int:
    """Train every shape and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="run only the shapes whose name contains this text")
    arguments = parser.parse_args()
    shapes = {name: shape for name, shape in SHAPES.items() if arguments.only is None or arguments.only in name}
    found = {name: compare(shape) for name, shape in shapes.items()}
    largest = max(abs(each["deviation"]) for sizes in found.values() for each in sizes.values())
    result = {"limit": LIMIT, "largest_deviation": largest, "shapes": found, "machine": machine()}
    return report("planned_sizes", result, passed=largest <= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
