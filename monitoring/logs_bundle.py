"""Collect the files of a run for its logs repository. Files are chosen by name, so nothing private is published."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.bundle import Bundle, LocalFile
from bloomery.config.stages import PublishStage
from bloomery.contracts.describe_origin import describe_stale
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import last_records
from bloomery.contracts.stale_artefacts import stale_training
from monitoring.logs_card import logs_card
from monitoring.snapshot import take_snapshot

_METRICS = "logs/metrics.jsonl"


def logs_bundle(stage: PublishStage, paths: RunPaths, folder: Path, *, finished: bool) -> tuple[Bundle, str]:
    """Return the run's current logs, segments, reports, configuration and README.md, and a title for the commit.

    The files are first copied into `folder`, where no process writes to them. `finished` is true if the training ended
    before this call.

    Raises:
        ResourceError: `folder` cannot be written.
    """
    copies = take_snapshot(paths, folder, finished=finished)
    files = {name: LocalFile.of(path) for name, path in copies.items()}
    step, validation = last_records(copies[_METRICS]) if _METRICS in copies else (None, None)
    older = stale_training(paths)
    page = logs_card(
        stage.name,
        stage.model_name,
        copies,
        step,
        validation,
        finished=finished,
        stale=None if older is None else describe_stale(older),
    )
    files["README.md"] = LocalFile.of(page.encode())
    bundle = Bundle(stage.logs_repository, files, mirror=False)
    return bundle, f"Sync at iteration {step.iteration}" if step else "Sync"
