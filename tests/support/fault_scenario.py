"""A fabricated run on a fabricated queue with a simulated clock, in which faults begin and end.

Only the clock and the queue are simulated. The files have the formats of a real run, and `look_once` reads them as
`bloomery watch` does. The fabricated queue consists of small programs named `squeue` and `scontrol`, which come first
on PATH.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fabricated_run import make_run, write_checkpoint

from bloomery.base.atomic import write_json
from bloomery.base.self_digest import write_with_own_digest
from bloomery.checks.load_config import validate_config
from bloomery.contracts.checkpoint import MANIFEST_NAME, step_name
from bloomery.contracts.metrics_record import MetricsRecord, ValidationRecord, dump_record
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus
from monitoring.alerts.look import Looked, look_once
from monitoring.sync_state import SyncState, write_sync

DEAD = 2**22 + 1
"""Number of a process that cannot exist, because Linux assigns numbers up to 2^22."""
SECONDS = 15.0
"""Usual duration of an iteration."""
PER_LOOK = 16
"""Number of iterations between two looks."""
SAVE_EVERY, VALIDATE_EVERY = 100, 50
_RUNNING = (
    "7\tjob\trule_train_segment_wildcards_1\tRUNNING\t5:00:00\t2\tnode[1-2]\t2026-01-01T00:00:00\t2026-01-01T00:00:00"
)
_PENDING = "8\tjob\trule_train_segment_wildcards_2\tPENDING\t5:00:00\t2\t(Priority)\tN/A\t{submitted}"


def configuration(**alerts: Any) -> Any:
    """Return the configuration of a run of 12 processes, with 20,000 iterations of 48 samples in fp16."""
    return validate_config(
        {
            "name": "big",
            "sources": [{"name": "s", "kind": "jsonl", "paths": ["x"]}],
            "model": {"layers": 6, "hidden_size": 64, "heads": 4, "sequence_length": 128},
            "training": {
                "train_samples": 48 * 20_000,
                "precision": "fp16",
                "parallel": {"tensor": 2, "pipeline": 3, "data": 2},
                "batch": {"micro_batch_size": 2, "global_batch_size": 48},
                "optimizer": {"learning_rate": 1e-3},
                "checkpoint": {"every_iterations": SAVE_EVERY, "keep_last": 2},
                "segment": {"max_crashes": 3},
                # A short window makes each look fast.
                "guards": {"divergence": {"window_iterations": 512}},
            },
            "alerts": alerts,
        }
    )


@dataclass
class Scenario:
    """A run whose training, queue and syncs a test controls."""

    paths: RunPaths
    environment: Mapping[str, str]
    queue: Path
    """File that the fabricated `squeue` prints. If it does not exist, `squeue` fails."""
    now: float
    iteration: int = 0
    trains: bool = True
    saves: bool = True
    syncs: bool = True
    loss: float = 1.0
    """Factor on the loss."""
    norm: float = 1.0
    """Factor on the gradient norm."""
    climbs: bool = False
    """Whether the loss climbs by 0.1 % in each iteration."""
    finite: bool = True
    scale: float = 65536.0
    speed: float = 1.0
    slow_rank: int | None = None
    french: float = 1.0
    """Factor on the validation loss of French."""
    seed: random.Random = field(default_factory=lambda: random.Random(3))
    _climbed: float = 1.0
    _synced: float = 0.0

    def text(self, seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def train(self, iterations: int) -> None:
        """Append the records of the next iterations, with validations and checkpoints."""
        lines: list[str] = []
        for _ in range(iterations):
            self.iteration += 1
            self.now += SECONDS / self.speed
            self._climbed = self._climbed * 1.001 if self.climbs else max(1.0, self._climbed * 0.99)
            lines.append(dump_record(self._record()))
            if self.iteration % VALIDATE_EVERY == 0:
                lines.append(dump_record(self._validation()))
            if self.iteration % SAVE_EVERY == 0 and self.saves:
                self.save()
        with (self.paths.logs / "metrics.jsonl").open("a") as handle:
            handle.write("".join(line + "\n" for line in lines))

    def save(self, size: int = 1000) -> None:
        """Save a checkpoint of the last iteration. As in a training, only the newest two are kept."""
        write_checkpoint(self.paths, self.iteration, size)
        self.touch(self.paths.checkpoints / step_name(self.iteration) / MANIFEST_NAME)
        for folder in sorted(self.paths.checkpoints.iterdir())[:-2]:
            (folder / MANIFEST_NAME).unlink()
            folder.rmdir()

    def _record(self) -> MetricsRecord:
        noise = self.seed.gauss(0, 1)
        seconds = SECONDS / self.speed * (1 + 0.01 * self.seed.random())
        slowest = self.seed.randrange(12) if self.slow_rank is None else self.slow_rank
        loss = 3.0 * self.loss * self._climbed * (1 + 0.003 * noise)
        return MetricsRecord(
            iteration=self.iteration,
            consumed_samples=48 * self.iteration,
            consumed_tokens=48 * 128 * self.iteration,
            global_batch_size=48,
            learning_rate=1e-3,
            loss=loss if self.finite else None,
            grad_norm=0.5 * self.norm * (1 + 0.1 * self.seed.random()) if self.finite else None,
            seconds=seconds,
            tokens_per_second=48 * 128 / seconds,
            tflops_hardware=1.0,
            tflops_model=1.0,
            samples_per_second=48 / seconds,
            total_iterations=20_000,
            segment=1,
            time=self.text(self.now),
            loss_scale=self.scale,
            overflowed=False,
            fastest_rank=(slowest + 1) % 12,
            fastest_seconds=1.0,
            slowest_rank=slowest,
            slowest_seconds=(1.05 if self.slow_rank is None else 1.5) + 0.01 * self.seed.random(),
        )

    def _validation(self) -> ValidationRecord:
        return ValidationRecord(
            iteration=self.iteration,
            consumed_samples=48 * self.iteration,
            consumed_tokens=48 * 128 * self.iteration,
            segment=1,
            time=self.text(self.now),
            validation={"fr": 3.0 * self.french, "en": 4.0},
            validation_mean=3.5,
        )

    def touch(self, path: Path) -> None:
        """Set the time of a file to that of the simulated clock."""
        os.utime(path, (self.now, self.now))

    def running(self) -> None:
        """Make the training's job run."""
        self.trains = True
        self.queue.write_text(_RUNNING + "\n")

    def pending(self) -> None:
        """Make the next training job wait in the queue. It was submitted now."""
        self.trains = False
        submitted = datetime.fromtimestamp(self.now).strftime("%Y-%m-%dT%H:%M:%S")
        self.queue.write_text(_PENDING.format(submitted=submitted) + "\n")

    def ended(self, status: SegmentStatus, **values: Any) -> None:
        """End a segment after the last iteration."""
        newest = max(path.name for path in self.paths.checkpoints.iterdir())
        segment = Segment(
            number=7,
            status=status,
            first_iteration=1,
            iteration=self.iteration,
            total_iterations=20_000,
            consumed_samples=0,
            consumed_tokens=0,
            checkpoint=newest,
            identity="x",
            nodes=("node1", "node2"),
            ended=self.text(self.now),
            **values,
        )
        path = self.paths.segments / "history" / "7-1.json"
        write_with_own_digest(path, segment.model_dump(mode="json"))
        self.touch(path)

    def look(self) -> Looked:
        """Let about 4 minutes pass, and look at the run."""
        if self.trains:
            self.train(PER_LOOK)
        else:
            self.now += PER_LOOK * SECONDS
        if self.syncs:
            self._synced = self.now
        failures = 0 if self.syncs else 3
        error = None if self.syncs else "no route to host"
        state = SyncState(repository="me/logs", synced=self.text(self._synced), failures=failures, error=error)
        write_sync(self.paths.sync_state, state)
        return look_once(self.paths, self.now, environment=self.environment)


_SQUEUE = """#!/bin/sh
if [ ! -e {folder}/queue ]; then echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1; fi
cat {folder}/queue
"""
_SCONTROL = "#!/bin/sh\nprintf 'node1\\nnode2\\n'\n"


@contextlib.contextmanager
def fabricated_queue(folder: Path) -> Iterator[Path]:
    """Put programs named `squeue` and `scontrol` first on PATH. Yield the file that `squeue` prints."""
    folder.mkdir()
    for name, text in (("squeue", _SQUEUE.format(folder=folder)), ("scontrol", _SCONTROL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
    try:
        yield folder / "queue"
    finally:
        os.environ["PATH"] = before


@contextlib.contextmanager
def scenario(root: Path, environment: Mapping[str, str], **alerts: Any) -> Iterator[Scenario]:
    """Yield a run that has trained for 1,200 iterations without a fault."""
    config = configuration(**alerts)
    paths = make_run(root, config)
    paths.logs.mkdir(parents=True)
    with fabricated_queue(root / "bin") as queue:
        # The clock begins in the future, so that no file of the test is newer than the run.
        made = Scenario(paths, environment, queue, now=float(round(time.time())) + 86_400)
        paths.slurm_runs.parent.mkdir(parents=True, exist_ok=True)
        paths.slurm_runs.write_text("job\n")
        write_json(paths.run / ".lock", {"pid": DEAD, "host": socket.gethostname(), "command": "snakemake"})
        made.touch(paths.run / ".lock")
        made.running()
        made.train(1200)
        yield made


@dataclass(frozen=True)
class Fault:
    """A fault, and how it begins and ends."""

    key: str
    """Key of the only alert that the fault must raise."""
    begin: Callable[[Scenario], None]
    end: Callable[[Scenario], None]


def _set(**values: Any) -> Callable[[Scenario], None]:
    def change(run: Scenario) -> None:
        for name, value in values.items():
            setattr(run, name, value)

    return change


def _spike(run: Scenario) -> None:
    # The gradient norm is high in six iterations.
    run.norm = 20.0
    run.train(6)
    run.norm = 1.0


def _overflow(run: Scenario) -> None:
    run.finite = False
    run.train(2)
    run.finite = True


def _end(status: SegmentStatus, **values: Any) -> Callable[[Scenario], None]:
    def change(run: Scenario) -> None:
        run.ended(status, **values)
        run.pending()

    return change


def _vanish(run: Scenario) -> None:
    run.ended(SegmentStatus.TIME_LIMIT)
    run.trains = False
    run.queue.write_text("")


def _freeze(run: Scenario) -> None:
    run.trains = False


def _go_on(run: Scenario) -> None:
    run.save()
    run.running()


def _large_checkpoint(run: Scenario) -> None:
    run.saves = False
    run.iteration += 1
    run.save(size=1 << 60)


def _small_checkpoint(run: Scenario) -> None:
    run.saves = True
    run.iteration += 1
    run.save(size=1000)


def _nothing(_: Scenario) -> None:
    return


TWELVE = (
    Fault("spike", _spike, _nothing),
    Fault("divergence", _set(climbs=True), _set(climbs=False)),
    Fault("non-finite", _overflow, _nothing),
    Fault("loss-scale", _set(scale=16.0), _set(scale=65536.0)),
    Fault("validation:fr", _set(french=1.2), _set(french=1.0)),
    Fault("stall", _freeze, lambda run: run.running()),
    Fault("throughput", _set(speed=0.5), _set(speed=1.0)),
    Fault("slow-rank", _set(slow_rank=9), _set(slow_rank=None)),
    Fault("checkpoint", _set(saves=False), _set(saves=True)),
    Fault("sync", _set(syncs=False), _set(syncs=True)),
    Fault("idle", _vanish, lambda run: run.running()),
    Fault("crash-budget", _end(SegmentStatus.CRASHED, crashes=3, message="torchrun was killed"), _go_on),
)
"""Twelve faults of different kinds."""

FURTHER = (
    Fault("disk", _large_checkpoint, _small_checkpoint),
    Fault("queue-age", _end(SegmentStatus.TIME_LIMIT), lambda run: run.running()),
    Fault("scheduler", lambda run: run.queue.unlink(), lambda run: run.running()),
    Fault("crash", _end(SegmentStatus.CRASHED, crashes=1, message="a node failed"), lambda run: run.running()),
)
"""Faults of all other kinds, except files that cannot be read."""


def run_fault(run: Scenario, fault: Fault, *, looks: int = 60) -> tuple[int, int]:
    """Begin a fault, look until its alert is recorded, end the fault, and look until its recovery is recorded.

    Return the number of looks until the alert, and from the end of the fault to the recovery.

    Raises:
        AssertionError: the alert or the recovery did not come within `looks` looks.
    """
    before = len(messages(run))
    fault.begin(run)
    begun = _look_until(run, fault.key, "alert", before, looks)
    # The fault lasts for one more look.
    run.look()
    fault.end(run)
    return begun, _look_until(run, fault.key, "recovery", before, looks)


def messages(run: Scenario) -> list[dict[str, Any]]:
    """Return the run's own list of messages."""
    path = run.paths.alerts / "alerts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _look_until(run: Scenario, key: str, event: str, before: int, looks: int) -> int:
    """Look until the messages after the first `before` ones contain the event. Return the number of looks."""
    for count in range(looks + 1):
        if any((each["key"], each["event"]) == (key, event) for each in messages(run)[before:]):
            return count
        run.look()
    raise AssertionError(f"no {event} of {key} within {looks} looks; messages: {messages(run)[before:]}")
