"""Record when a workflow begins and how it ends, so that `bloomery run` knows whether to start it again."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from bloomery.base.digest import digest_json
from bloomery.base.times import utc_now
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.workflow_state import WorkflowRecord, WorkflowState, progress_of, read_workflow, write_workflow
from bloomery.orchestration.stop_mark import forget_stop, was_stopped_since
from bloomery.orchestration.workflow_command import TARGETS

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def config_digest(config: RunConfig) -> str:
    """Return the digest of a run's whole configuration."""
    return digest_json(config.model_dump(mode="json"))


class RecordedWorkflow:
    """The record of this process's workflow."""

    def __init__(self, paths: RunPaths, record: WorkflowRecord) -> None:
        self._paths, self._record = paths, record
        self._interrupted = False

    @classmethod
    def begin(cls, paths: RunPaths, config: RunConfig) -> RecordedWorkflow:
        """Record that the workflow runs, and remember every later Ctrl-C. Call this in the main thread."""
        # A person who starts the workflow of a stopped run resumes it. `bloomery run` from cron does not start it.
        forget_stop(paths)
        before = read_workflow(paths)
        record = WorkflowRecord(
            state=WorkflowState.RUNNING,
            target=next((word for word in sys.argv[1:2] if word in TARGETS), TARGETS[0]),
            config_digest=config_digest(config),
            started=utc_now(),
            failures=before.failures if before is not None else 0,
            progress=before.progress if before is not None else (0, 0),
        )
        write_workflow(paths, record)
        recorded = cls(paths, record)
        recorded._note_interrupt()
        return recorded

    def _note_interrupt(self) -> None:
        previous = signal.getsignal(signal.SIGINT)

        def note(number: int, frame: FrameType | None) -> None:
            self._interrupted = True
            if callable(previous):
                previous(number, frame)

        signal.signal(signal.SIGINT, note)

    def end(self, *, failed: bool) -> None:
        """Record the end of the workflow."""
        progress = progress_of(self._paths)
        update: dict[str, object] = {"ended": utc_now(), "progress": progress, "failures": 0}
        if not failed:
            update["state"] = WorkflowState.FINISHED
        elif self._interrupted or was_stopped_since(self._paths, self._record.started):
            update["state"] = WorkflowState.STOPPED
        else:
            before = self._record.failures if progress == self._record.progress else 0
            update |= {"state": WorkflowState.FAILED, "failures": before + 1}
        write_workflow(self._paths, self._record.model_copy(update=update))
