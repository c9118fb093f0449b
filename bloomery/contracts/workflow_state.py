"""Define monitoring/workflow.json, which records the state of a run's newest workflow.

`bloomery run` reads the record to decide whether to start the workflow again. A workflow that was killed leaves the
state `running`, while the lock of the run is free.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.section import Count
from bloomery.contracts.checkpoint import newest_manifest
from bloomery.contracts.paths import RunPaths


class WorkflowState(StrEnum):
    """State of a workflow."""

    RUNNING = "running"
    """The workflow runs, or was killed."""
    FINISHED = "finished"
    """All requested outputs exist."""
    STOPPED = "stopped"
    """A person stopped the workflow or the training."""
    FAILED = "failed"
    """A job failed, and its retries failed too."""


class WorkflowRecord(BaseModel):
    """State of the newest workflow of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: WorkflowState
    target: str
    """Target of the workflow, such as `train`."""
    config_digest: str
    """Digest of the run's configuration. After a change, a finished workflow must start again."""
    started: str
    """Time when the workflow began: UTC, ISO 8601."""
    ended: str | None = None
    """Time when the workflow ended: UTC, ISO 8601. None while it runs, and after it was killed."""
    failures: Count = 0
    """Number of workflows that failed in a row without progress of the run between them, including this one."""
    progress: tuple[int, int] = (0, 0)
    """Iteration of the newest checkpoint and number of finished jobs when the workflow ended."""


def state_file(paths: RunPaths) -> Path:
    """Return the path of the record."""
    return paths.monitoring / "workflow.json"


def write_workflow(paths: RunPaths, record: WorkflowRecord) -> None:
    """Write the record atomically."""
    paths.monitoring.mkdir(parents=True, exist_ok=True)
    write_json(state_file(paths), record.model_dump(mode="json"))


def read_workflow(paths: RunPaths) -> WorkflowRecord | None:
    """Return the record of the newest workflow. Return None if the record is missing or damaged.

    A damaged record must not prevent a start, because starting a finished workflow again does nothing.
    """
    try:
        return WorkflowRecord.model_validate(read_json(state_file(paths)))
    except (InputError, ValidationError):
        return None


def progress_of(paths: RunPaths) -> tuple[int, int]:
    """Return the iteration of the newest checkpoint and the number of finished jobs of a run.

    Snakemake writes a benchmark file for each finished job of most rules.
    """
    newest = newest_manifest(paths.checkpoints)
    jobs = sum(1 for _ in (paths.run / "benchmarks").rglob("*.tsv"))
    return (0 if newest is None else newest.iteration, jobs)
