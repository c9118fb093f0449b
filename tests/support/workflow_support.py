"""Run the real workflow of a tiny run in its own folder."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from recorded_losses import recorded_losses
from repository import ROOT
from snakemake_server import run_snakemake

from bloomery.base.digest import sha256_file

SNAKEFILE = ["--snakefile", str(ROOT / "Snakefile")]
SNAKEMAKE = [sys.executable, "-m", "snakemake", *SNAKEFILE]
LOCAL = ["--profile", str(ROOT / "workflow/profiles/local")]

TINY: dict[str, Any] = {
    "name": "tiny",
    "sources": [
        {
            "name": "texts",
            "kind": "jsonl",
            "paths": [str(ROOT / f"config/sample/{name}.jsonl") for name in ("defects", "en", "fr", "zhs")],
            "language_field": "language",
            "id_field": "id",
        }
    ],
    "corpus": {"ingest": {"shard_bytes": "30KiB", "max_document_bytes": "16KiB"}, "dedup": {"partitions": 2}},
    "tokenizer": {"vocabulary_size": 640, "reserved_tokens": 4},
    "index": {"validation_share": 0.2},
    "model": {"layers": 2, "hidden_size": 32, "heads": 2, "sequence_length": 32},
    "training": {
        "train_samples": 240,
        "parallel": {"tensor": 2},
        "batch": {"micro_batch_size": 4, "global_batch_size": 8},
        "optimizer": {"learning_rate": 0.01, "warmup_samples": 16},
        "checkpoint": {"every_iterations": 5},
        "validation": {"every_iterations": 10, "samples": 2},
    },
    "publish": {"hub": False},
}


@dataclass
class Workflow:
    """A configuration in a folder, with methods that run the workflow."""

    folder: Path
    config: dict[str, Any]
    program: list[str] = field(default_factory=lambda: SNAKEMAKE)
    profile: list[str] = field(default_factory=lambda: LOCAL)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ | {"HF_TOKEN": ""})

    @property
    def run_folder(self) -> Path:
        return self.folder / "runs" / str(self.config["name"])

    def command(self, *arguments: str) -> list[str]:
        path = self.folder / "run.yaml"
        path.write_text(yaml.safe_dump(self.config, sort_keys=False))
        # Targets come first, because --configfile takes every word that follows it.
        return [*self.program, *arguments, *self.profile, "--directory", str(self.folder), "--configfile", str(path)]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        # With its own process group, a test can kill exactly this workflow.
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=dict(self.environment),
        )

    def run(self, *arguments: str, expect: int = 0) -> str:
        if self.profile == LOCAL:
            code, talk = run_snakemake(self.command(*arguments)[len(SNAKEMAKE) - len(SNAKEFILE) :], self.environment)
        else:
            process = self.start(*arguments)
            talk, _ = process.communicate(timeout=3600)
            code = process.returncode
        assert code == expect, talk
        return talk

    def planned(self, *arguments: str) -> dict[str, int]:
        """Return the number of jobs of each rule that a dry-run plans."""
        talk = self.run("--dry-run", *arguments)
        if "Nothing to be done" in talk:
            return {}
        table = talk.split("Job stats:")[1].split("\ntotal ")[0]
        return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, flags=re.MULTILINE)}

    def changed(self, path: str, new: Any) -> Workflow:
        """Return a workflow in the same folder with another value of the key `path`."""
        config = copy.deepcopy(self.config)
        place, keys = config, path.split(".")
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = new
        return replace(self, config=config)

    def digests(self, *folders: str) -> dict[str, str]:
        """Return the digest of every file below these folders of the run. Links are followed."""
        return {
            path.relative_to(self.run_folder).as_posix(): sha256_file(path)
            for folder in folders
            for place, _, names in os.walk(self.run_folder / folder, followlinks=True)
            for path in sorted(Path(place) / name for name in names)
            if path.is_file() and not path.name.endswith(".tmp")
        }

    def losses(self) -> dict[int, tuple[float, float]]:
        """Return (loss, gradient norm) by iteration."""
        return recorded_losses(self.run_folder / "train/logs/metrics.jsonl")
