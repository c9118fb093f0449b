"""What of a run goes into its logs' repository: chosen by name, so that nothing private goes along."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.bundle import Bundle, LocalFile
from bloomery.config.stages import PublishStage
from bloomery.contracts.metrics_record import last_records
from bloomery.contracts.paths import RunPaths
from monitoring.logs_card import logs_card
from monitoring.snapshot import take_snapshot

_METRICS = "logs/metrics.jsonl"


def logs_bundle(stage: PublishStage, paths: RunPaths, folder: Path, *, finished: bool) -> tuple[Bundle, str]:
    """Logs, segments, reports and configuration as they are now, with a page that says what they are; and in a few
    words, as a commit's title, where the training stands.

    The files are copied into `folder` first, where nobody writes to them. `finished`: the training had ended before.
    Raises ResourceError.
    """
    copies = take_snapshot(paths, folder, finished=finished)
    files = {name: LocalFile.of(path) for name, path in copies.items()}
    step, validation = last_records(copies[_METRICS]) if _METRICS in copies else (None, None)
    page = logs_card(stage.name, stage.model_name, copies, step, validation, finished=finished)
    files["README.md"] = LocalFile.of(page.encode())
    bundle = Bundle(stage.publish.logs_repository or f"{stage.model_name}-logs", files, mirror=False)
    return bundle, f"Sync at iteration {step.iteration}" if step else "Sync"
