"""Compare the plan of a run with the files that the run wrote."""

from __future__ import annotations

import os
from pathlib import Path

from bloomery.config.run import RunConfig
from bloomery.contracts.checkpoint import step_folders
from bloomery.contracts.disk_use import disk_use
from bloomery.contracts.paths import RunPaths

LOG_FOLDERS = ("train/logs", "train/segments", "logs/train_segment", "benchmarks/train_segment")


def planned_and_real_bytes(config: RunConfig, paths: RunPaths) -> list[tuple[str, int, int]]:
    """Return (name, planned bytes, real bytes) of the checkpoint, logs, index and export of a finished run."""
    plan = disk_use(config)
    exported = [paths.export, *(folder for folder in paths.published.iterdir() if (folder / "parity.json").is_file())]
    return [
        ("checkpoint", plan.checkpoint, folder_bytes(step_folders(paths.checkpoints)[0])),
        ("logs", plan.logs, sum(folder_bytes(paths.run / folder) for folder in LOG_FOLDERS)),
        ("index", plan.index, folder_bytes(paths.index)),
        ("export", plan.export, sum(map(folder_bytes, exported))),
    ]


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below `folder`. Links are followed, and a file with several links counts once."""
    found = [(Path(place) / name).stat() for place, _, names in os.walk(folder, followlinks=True) for name in names]
    return sum({(file.st_dev, file.st_ino): file.st_size for file in found}.values())
