"""Record the losses of a training that is killed with SIGKILL and resumed, and of an uninterrupted one."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import adapter
import psutil
from training_runs import losses, make_index, prepare, start, train

_KILL_AFTER = 9
"""Number of recorded iterations before the kill. A checkpoint is saved every second iteration."""
_KINDS: dict[str, dict[str, Any]] = {
    "stages": {"parallel": {"pipeline": 2}, "checkpoint": {"every_iterations": 2, "asynchronous": True}},
    "replicas": {"parallel": {"data": 2}, "checkpoint": {"every_iterations": 2}},
}


def record(folder: Path) -> dict[str, Any]:
    """Return the losses of an uninterrupted training and of one that was killed. `folder` must be empty."""
    work = folder / "resume"
    make_index(work)
    found: dict[str, Any] = {}
    for kind, training in _KINDS.items():
        run = prepare(work, training)
        train(work)
        undisturbed = losses(run)
        run = prepare(work, training)
        _train_and_kill(work, run)
        segment = train(work)
        # The iteration of the resume depends on the moment of the kill, so only record that the training resumed.
        found[kind] = {
            "undisturbed": undisturbed,
            "resumed": losses(run),
            "resumed_from_a_checkpoint": 1 < segment["first_iteration"] <= _KILL_AFTER + 2,
            "status": segment["status"],
        }
    return found


def _train_and_kill(work: Path, run: Path) -> None:
    """Start the training. After enough recorded iterations, kill the launcher and all ranks at once."""
    process, path = start(work), adapter.metrics_file(run)
    while not path.exists() or path.read_text().count('"loss"') < _KILL_AFTER:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    launcher = psutil.Process(process.pid)
    for each in [*launcher.children(recursive=True), launcher]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.communicate()
