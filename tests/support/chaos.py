"""Draw random faults of a cluster and inject them into one training, while only cron's command keeps the run alive.

A real SLURM runs the training. No command is typed: a loop calls `bloomery run` as cron would. After each fault, the
time is measured until the training records the next iteration. It counts from the end of an outage, or from the
detection of a hang.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml
from recorded_losses import recorded_losses
from slurm_cluster import SlurmCluster
from slurm_workflow import end_workflows, ranks, segments, training_jobs
from waiting import wait_for
from workflow_support import ROOT

from bloomery.base.progress import say

FAULTS = (
    *("outage", "outage", "outage"),
    *("failed sbatch", "failed sbatch", "failed sbatch"),
    *("time limit", "time limit"),
    *("preemption", "requeue", "drained node", "dead node", "hung rank", "dead watcher", "full disk"),
    *("killed rank", "killed torchrun", "killed srun", "killed launcher", "killed workflow"),
)
"""The faults of the long test: 20."""
OUTAGE_SECONDS = (15, 45, 300)
"""Lengths of the outages of slurmctld. The last two are longer than slurmctld remembers jobs (MinJobAge)."""
_CONTINUES = ("outage", "dead watcher", "killed workflow")
"""Faults during which the segment continues."""
SETTINGS = {"KillWait": "20", "MinJobAge": "30", "SlurmdTimeout": "15"}
"""Settings of slurm.conf with which SLURM notices dead nodes soon, and forgets ended jobs during an outage."""
CRON_SECONDS = 15.0
SLOW_STEP = """\
import sys
if "training.loop.main" in sys.orig_argv and "training.processes.torchrun" not in sys.orig_argv:
    import os, time
    from training.loop.control import ControlPlane
    poll, seconds = ControlPlane.poll, float(os.environ["BLOOMERY_TEST_STEP_SECONDS"])
    def slow(self, report=None):
        if not os.path.exists(os.path.join(os.path.dirname(__file__), "fast")):
            time.sleep(seconds)
        return poll(self, report)
    ControlPlane.poll = slow
"""
"""Program that makes each iteration longer, so that a small training lasts as long as the faults."""


@dataclass(frozen=True)
class Injected:
    """One injected fault and how the training recovered."""

    fault: str
    iteration: int
    """Last iteration before the fault."""
    detail: str
    idle_seconds: float
    """Time without training, from the end of the outage or the detection of the hang to the next iteration."""


@dataclass
class Chaos:
    """A run on a cluster, a loop that calls `bloomery run` like cron, and the faults."""

    cluster: SlurmCluster
    folder: Path
    config: dict[str, Any]
    site: dict[str, Any]
    seed: int
    step_seconds: float
    cron_seconds: float = CRON_SECONDS
    calls: list[tuple[float, int]] = field(default_factory=list)
    """Time and exit code of each call of `bloomery run` that has ended."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.run = Path(self.config["root"]) / str(self.config["name"])
        self.random = random.Random(self.seed)
        self._outages = self.random.sample(OUTAGE_SECONDS, len(OUTAGE_SECONDS))
        (self.folder / "python").mkdir(parents=True, exist_ok=True)
        (self.folder / "python/sitecustomize.py").write_text(SLOW_STEP)
        (self.folder / "site.yaml").write_text(yaml.safe_dump(self.site))
        (self.folder / "run.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))

    def run_to_the_end(self, faults: Sequence[str]) -> list[Injected]:
        """Inject the faults one after another, and wait until the training has finished. Return the faults."""
        injected = []
        try:
            with self.cron():
                for fault in faults:
                    injected.append(self.inject(fault))
                    say(json.dumps(asdict(injected[-1])))
                self.speed_up()
                wait_for((self.run / "train/finished.json").exists, 3600, every=1)
        finally:
            end_workflows(self.folder)
        return injected

    def speed_up(self) -> None:
        """Let the following segments, and this one, train without the additional time."""
        (self.folder / "python/fast").touch()

    def segments(self) -> list[dict[str, Any]]:
        """Return number, status, fault, last iteration and message of each segment."""
        shown = ("number", "status", "fault", "iteration", "message")
        return [{key: record[key] for key in shown} for record in segments(self.run)]

    @property
    def environment(self) -> Mapping[str, str]:
        paths = [str(self.folder / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **self.cluster.environment,
            "HF_TOKEN": "",
            "BLOOMERY_SITE": str(self.folder / "site.yaml"),
            "BLOOMERY_TEST_STEP_SECONDS": str(self.step_seconds),
            "PYTHONPATH": os.pathsep.join(paths),
        }

    @contextlib.contextmanager
    def cron(self) -> Iterator[None]:
        """Call `bloomery run` every few seconds in the background. A call that starts the workflow lasts as long."""
        thread = threading.Thread(target=self._call_repeatedly, name="cron")
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _call_repeatedly(self) -> None:
        command = [sys.executable, "-m", "bloomery.cli", "run", str(self.folder / "run.yaml"), "--target", "train"]
        options = ["--profile", str(ROOT / "slurm"), "--bloomery-slurm-longest-poll-seconds", "0.5"]
        log = (self.folder / "cron.log").open("ab")
        running: list[subprocess.Popen[bytes]] = []
        with log:
            while not self._ended.is_set():
                running.append(
                    subprocess.Popen(
                        [*command, *options, "--directory", str(self.folder)],
                        cwd=ROOT,
                        env=dict(self.environment),
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
                self._ended.wait(self.cron_seconds)
                for process in [each for each in running if each.poll() is not None]:
                    running.remove(process)
                    self.calls.append((time.time(), process.returncode))
        for process in running:
            process.wait(120)

    # What the training does

    def losses(self) -> dict[int, tuple[float, float]]:
        """Return (loss, gradient norm) by iteration."""
        return recorded_losses(self.run / "train/logs/metrics.jsonl")

    def iterations(self) -> list[int]:
        """Return the iterations that metrics.jsonl records, in order. Iterations are repeated after a fault."""
        path = self.run / "train/logs/metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["iteration"] for line in lines if '"loss"' in line and line.endswith("}")]

    def last_iteration(self) -> int:
        return max(self.iterations(), default=0)

    def launches(self) -> int:
        """Return how many launchers of segments have begun."""
        path = self.run / "train/launches.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def newest_checkpoint(self) -> str:
        return max(
            (path.parent.name for path in (self.run / "train/checkpoints").glob("step*/manifest.json")), default=""
        )

    def processes(self, *words: str) -> list[psutil.Process]:
        """Return the processes of this run whose command line contains all words."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd"]):
            line = process.info["cmdline"] or []
            if process.info["cwd"] == str(self.folder) and all(any(word in part for part in line) for word in words):
                found.append(process)
        return found

    def training_job(self) -> str:
        """Return the id of the running training job, or an empty text."""
        return next(iter(training_jobs(self.cluster, self.folder, "RUNNING")), "")

    def waiting_job(self) -> str:
        """Return the id of the job that waits for the next segment, or an empty text."""
        return next(iter(training_jobs(self.cluster, self.folder, "PENDING")), "")

    # Faults

    def inject(self, fault: str) -> Injected:
        """Inject a fault into the running training, and wait until the training records the next iteration."""
        before = self.newest_checkpoint()
        # A budget limits the crashes without a new checkpoint, so each fault comes after a new one.
        wait_for(lambda: self.newest_checkpoint() > before and self.training_job(), 1800, every=0.2)
        iteration, launches = self.last_iteration(), self.launches()
        detail, began = self._faults[fault]()
        if fault not in _CONTINUES:
            # Iterations that the old segment still records do not count.
            wait_for(lambda: self.launches() > launches, 900, every=0.05)
        recorded = len(self.iterations())
        wait_for(lambda: len(self.iterations()) > recorded, 900, every=0.05)
        return Injected(fault, iteration, detail, round(max(0.0, time.time() - began), 1))

    @property
    def _faults(self) -> Mapping[str, Callable[[], tuple[str, float]]]:
        """Functions that inject a fault. They return a detail and the time from which the idle time counts."""
        return {
            "outage": self._outage,
            "failed sbatch": self._failed_sbatch,
            "time limit": self._time_limit,
            "preemption": self._preemption,
            "requeue": self._requeue,
            "drained node": self._drained_node,
            "dead node": self._dead_node,
            "hung rank": self._hung_rank,
            "dead watcher": self._dead_watcher,
            "full disk": self._full_disk,
            "killed rank": lambda: self._killed(self.random.choice(ranks(self.folder))),
            "killed torchrun": lambda: self._killed(self.random.choice(self.processes("training.processes.torchrun"))),
            "killed srun": lambda: self._killed(self.processes("srun", "training.processes.start_node")[0]),
            "killed launcher": lambda: self._killed(self.processes("train", "segment", "--output")[-1]),
            "killed workflow": self._killed_workflow,
        }

    def _killed(self, process: psutil.Process) -> tuple[str, float]:
        detail = " ".join(process.cmdline()[:4])
        process.kill()
        return detail, time.time()

    def _killed_workflow(self) -> tuple[str, float]:
        lock = self.run / ".lock"
        pid = int(json.loads(lock.read_text())["pid"])
        os.kill(pid, signal.SIGKILL)
        killed = time.time()
        wait_for(lambda: int(json.loads(lock.read_text() or '{"pid": 0}')["pid"]) not in (0, pid), 120, every=0.1)
        return f"cron brought it back after {time.time() - killed:.0f} s", killed

    def _outage(self) -> tuple[str, float]:
        seconds = self._outages.pop()
        self.cluster.stop_controller()
        began = time.monotonic()
        wait_for(lambda: time.monotonic() - began > seconds, seconds + 30, every=0.1)
        self.cluster.start_controller()
        return f"slurmctld was away for {seconds} s", time.time()

    def _failed_sbatch(self) -> tuple[str, float]:
        faults = self.random.choice((("before",), ("after",), ("before", "after")))
        self.cluster.fail_sbatch(*faults)
        # Without a waiting job, the workflow must submit the next segment itself.
        wait_for(self.waiting_job, 300, every=0.2)
        self.cluster.run("scancel", self.waiting_job())
        return f"sbatch failed: {', '.join(faults)}", self._killed(self.random.choice(ranks(self.folder)))[1]

    def _time_limit(self) -> tuple[str, float]:
        job = self.training_job()
        self.cluster.run("scontrol", "update", f"jobid={job}", "timelimit=1")
        wait_for(lambda: self.training_job() != job, 300, every=0.1)
        return f"job {job} met its time limit", time.time()

    def _preemption(self) -> tuple[str, float]:
        job = self.training_job()
        urgent = ("sbatch", "--parsable", "--partition=urgent", "--exclusive", f"--nodes={self.cluster.nodes}")
        other = self.cluster.run(*urgent, "--output=/dev/null", "--wrap=sleep 5").stdout.strip()
        wait_for(lambda: other not in self.cluster.squeue("--noheader", "--format=%i").split(), 300, every=0.1)
        return f"job {other} took the nodes of job {job}", time.time()

    def _requeue(self) -> tuple[str, float]:
        job = self.training_job()
        self.cluster.run("scontrol", "requeue", job)
        return f"job {job} was requeued", time.time()

    def _nodes(self) -> list[str]:
        wait_for(self.training_job, 300, every=0.2)
        listed = self.cluster.squeue("--noheader", f"--jobs={self.training_job()}", "--format=%N")
        return self.cluster.run("scontrol", "show", "hostnames", listed).stdout.split()

    def _drained_node(self) -> tuple[str, float]:
        node = self.random.choice(self._nodes())
        self.cluster.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=chaos")
        launches = self.launches()
        _, began = self._killed(self.random.choice(ranks(self.folder)))
        wait_for(lambda: self.launches() > launches, 900, every=0.05)
        assert node not in self._nodes(), "the training runs on a drained node"
        self.cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
        return f"{node} was drained, and a rank killed", began

    def _dead_node(self) -> tuple[str, float]:
        node = self.random.choice(self._nodes())
        began = time.time()
        self.cluster.crash_node(int(node.removeprefix("node")))
        wait_for(lambda: self.training_job() and node not in self._nodes(), 300, every=0.2)
        self.cluster.start_node(int(node.removeprefix("node")))
        return f"{node} died", began

    def _hung_rank(self) -> tuple[str, float]:
        hangs = self.run / "train/logs/hangs"
        before = len(list(hangs.glob("*")))
        rank = self.random.choice(ranks(self.folder))
        rank.suspend()
        stopped = time.time()
        wait_for(lambda: len(list(hangs.glob("*"))) > before, 600, every=0.1)
        return f"noticed after {time.time() - stopped:.0f} s", time.time()

    def _dead_watcher(self) -> tuple[str, float]:
        before = {each.pid for each in self.processes("bloomery.cli", "watch")}
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        killed = time.time()
        wait_for(lambda: {each.pid for each in self.processes("bloomery.cli", "watch")} - before, 120, every=0.1)
        return f"started again after {time.time() - killed:.0f} s", killed

    def _full_disk(self) -> tuple[str, float]:
        filler = self.run / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as handle:
            while True:
                handle.write(b"\0" * (1 << 16))
        full = time.monotonic()
        recorded = len(self.iterations())
        wait_for(lambda: time.monotonic() - full > 30, 60, every=0.1)
        filler.unlink()
        return f"the disk was full for 30 s; {len(self.iterations()) - recorded} iterations meanwhile", time.time()


def chaos_config(training: Mapping[str, Any], samples: int, checkpoint_iterations: int) -> dict[str, Any]:
    """Return the configuration of a training with frequent checkpoints and quick detection of hangs.

    Args:
        training: the training section of the tests' run.
        samples: number of training samples, in batches of 8.
        checkpoint_iterations: iterations between two checkpoints.
    """
    return {
        **dict(training),
        "train_samples": samples,
        "checkpoint": {"every_iterations": checkpoint_iterations},
        "heartbeat": {"iterations": 5.0, "seconds": 10.0, "save_seconds": 30.0, "first_minutes": 2.0},
        "segment": {"margin_minutes": 0.45, "max_restarts_without_progress": 20},
    }


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount a file system of `megabytes` in memory at `folder`, so that a test can fill it. This needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def draw(seed: int, count: int | None = None) -> list[str]:
    """Return the faults in a random order. With `count`, return that many different kinds."""
    drawn = random.Random(seed)
    if count is None:
        return drawn.sample(FAULTS, len(FAULTS))
    return drawn.sample(sorted(set(FAULTS)), count)


def differing_files(run: Path, reference: Path) -> list[str]:
    """Return the files of the final checkpoint that differ between two runs."""
    names = [max(path.name for path in (each / "train/checkpoints").glob("step*")) for each in (run, reference)]
    assert names[0] == names[1], names
    ours, others = (each / "train/checkpoints" / names[0] for each in (run, reference))
    files = sorted(
        {path.relative_to(each).as_posix() for each in (ours, others) for path in each.rglob("*") if path.is_file()}
    )
    return [
        name
        for name in files
        if not ((ours / name).is_file() and (others / name).is_file())
        or (ours / name).read_bytes() != (others / name).read_bytes()
    ]
