"""Make plans of small runs, as the main process of the workflow or one of its jobs does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from bloomery.config.run import RunConfig
from bloomery.orchestration.run_plan import RunPlan, make_run_plan, read_config

LOGGER = logging.getLogger("tests.planned_run")
TOKENIZER = {"existing": "owner/name"}
"""A tokenizer on a Hub, which planning does not read."""


def small_config(root: Path, **changes: Any) -> RunConfig:
    """Return a configuration with two text sources below `root`: `web` with three shards, and `books` with one."""
    sources = []
    for name, files in (("web", 3), ("books", 1)):
        folder = root / "texts" / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(files):
            (folder / f"{number}.jsonl").write_bytes(b" " * 1500)
        sources.append({"name": name, "kind": "jsonl", "paths": [str(folder / "*.jsonl")]})
    values = {
        "name": "small",
        "root": str(root / "runs"),
        "sources": sources,
        "corpus": {"ingest": {"shard_bytes": 2048, "max_document_bytes": 1024}, "dedup": {"partitions": 2}},
        "model": {"layers": 2, "hidden_size": 32, "heads": 2, "sequence_length": 32},
        "training": {
            "train_samples": 240,
            "batch": {"micro_batch_size": 4, "global_batch_size": 8},
            "optimizer": {"learning_rate": 0.01},
        },
        "publish": {"hub": False},
    }
    for key, value in changes.items():
        values[key] = values[key] | value if isinstance(values.get(key), dict) else value
    return read_config(values, [])


def token_source(root: Path) -> dict[str, Any]:
    """Make a source of one existing pair of token files."""
    for end in (".idx", ".bin"):
        (root / f"tokens{end}").touch()
    return {"name": "tokens", "kind": "megatron", "paths": [str(root / "tokens")], "language": "fr"}


def earlier_run(folder: Path) -> Path:
    """Make a run with a finished corpus of one shard, with only the files that planning checks."""
    for below in ("config", "corpus/duplicates", "corpus/measures/old", "corpus/clean/old"):
        (folder / below).mkdir(parents=True)
    (folder / "config/parts.json").write_text('["old/00000"]')
    (folder / "corpus/duplicates/clusters.json").write_text("{}")
    for name in ("measures", "clean"):
        for end in (".parquet", ".json"):
            (folder / f"corpus/{name}/old/00000{end}").touch()
    return folder


def planned(root: Path, *, is_main_process: bool = True, **changes: Any) -> RunPlan:
    """Return the plan of `small_config`."""
    return make_run_plan(small_config(root, **changes), is_main_process=is_main_process, logger=LOGGER)


def release(plan: RunPlan) -> None:
    """Release the lock of a plan, so that another plan of the same run can take it."""
    assert plan.lock is not None
    assert not isinstance(plan.lock, Exception)
    plan.lock.release()
