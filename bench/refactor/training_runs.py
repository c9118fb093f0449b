"""Run trainings with the command line, and read their metrics.jsonl with floats as hexadecimal text."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import adapter
import yaml
from folders import empty_folder

NAME = "tiny"
TINY: dict[str, Any] = {
    "name": NAME,
    "sources": [
        {
            "name": "texts",
            "kind": "jsonl",
            "paths": [f"config/sample/{language}.jsonl" for language in ("en", "fr", "zhs")],
            "language_field": "language",
            "id_field": "id",
        }
    ],
    "tokenizer": {"vocabulary_size": 640, "reserved_tokens": 4},
    "index": {"validation_share": 0.2},
    "model": {"layers": 4, "hidden_size": 32, "heads": 4, "sequence_length": 32},
    "training": {
        "train_samples": 280,
        "batch": {"micro_batch_size": 2, "global_batch_size": 8},
        "optimizer": {"learning_rate": 0.01, "warmup_samples": 16},
        "validation": {"every_iterations": 10, "samples": 4},
    },
    "publish": {"hub": False},
}
"""The run whose index all these trainings share."""


def snakemake(work: Path, *arguments: str) -> None:
    """Run the workflow of `run.yaml` in the folder `work`. Raise RuntimeError with its output if it fails."""
    command = [*adapter.SNAKEMAKE, *arguments, *adapter.SNAKEFILE, *adapter.LOCAL, "--directory", "."]
    command += ["--configfile", "run.yaml"]
    done = subprocess.run(command, cwd=work, env=adapter.environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def make_index(work: Path) -> None:
    """Make the corpus, the tokenizer and the index of `TINY` in the new folder `work`."""
    empty_folder(work)
    (work / "run.yaml").write_text(yaml.safe_dump(TINY, sort_keys=False))
    snakemake(work, "index")


def prepare(work: Path, training: dict[str, Any]) -> Path:
    """Remove the previous training, and let the workflow write the stage files of a training with the keys in
    `training`.

    Return the folder of the run.
    """
    config = copy.deepcopy(TINY)
    config["training"] |= training
    (work / "run.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    run = work / "runs" / NAME
    shutil.rmtree(run / "train", ignore_errors=True)
    snakemake(work, "index", "--dry-run")
    return run


def start(work: Path, number: int = 1) -> subprocess.Popen[str]:
    """Start a segment of the training in `work`."""
    (work / adapter.segment_file(f"runs/{NAME}", number)).parent.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        adapter.segment_command(f"runs/{NAME}", number),
        cwd=work,
        env=adapter.environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def train(work: Path, number: int = 1) -> dict[str, Any]:
    """Train a segment to its end and return its file. Raise RuntimeError with its output if it fails."""
    process = start(work, number)
    talk, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(talk)
    segment: dict[str, Any] = json.loads((work / adapter.segment_file(f"runs/{NAME}", number)).read_text())
    return segment


def exact(value: Any) -> Any:
    """Replace floats by hexadecimal text, which preserves every bit."""
    if isinstance(value, dict):
        return {key: exact(each) for key, each in value.items()}
    if isinstance(value, list):
        return [exact(each) for each in value]
    return value.hex() if isinstance(value, float) else value


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return every record of a training in order, without the fields that depend on a clock."""
    lines = adapter.metrics_file(run).read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [exact({k: v for k, v in record.items() if k not in adapter.MEASURED_FIELDS}) for record in records]


def losses(run: Path) -> dict[str, list[str]]:
    """Return loss and gradient norm of each iteration. A repeated iteration must have the same values again."""
    found: dict[str, list[str]] = {}
    for record in metrics(run):
        if "loss" in record:
            values = [record["loss"], record["grad_norm"]]
            before = found.setdefault(f"{record['iteration']:05d}", values)
            assert before == values, f"iteration {record['iteration']}: {values} after {before}"
    return found
