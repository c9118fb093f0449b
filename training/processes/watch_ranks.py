"""Watch the heartbeats of a segment's ranks in the launcher. On a hang, collect the stacks and end all processes.

A hang is reported with the ranks that cause it. The stacks of all ranks that still run Python are written to
train/logs/hangs. See `bloomery.detect.hang` for what counts as a hang.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bloomery.base.atomic import write_text
from bloomery.base.errors import BloomeryError
from bloomery.base.progress import say
from bloomery.base.units import format_seconds
from bloomery.config.training import TrainingConfig
from bloomery.config.training_loop import HeartbeatConfig
from bloomery.contracts.heartbeat import (
    LAUNCH_VARIABLE,
    Heartbeat,
    Place,
    beat_seconds,
    end_request,
    read_heartbeats,
    stacks_request,
)
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import FirstFailure
from bloomery.detect.hang import Hang, HangDetector
from training.processes.end_processes import end_processes

_SAY_SILENT_SECONDS = 60.0
_STACKS_SECONDS = 5.0
"""Maximum time for the stacks, in addition to the time between two beats."""
_SIGNAL_SECONDS = 2.0
"""Maximum time for the stacks of local ranks that received a signal, because their threads did not answer."""
_END_SECONDS = 10.0
"""Maximum time for the nodes to end their ranks. After it, the launcher kills the processes of its own node."""
_NAMED_RANKS = 8
_DOING = {
    Place.STARTING: "starting",
    Place.LOADING: "loading",
    Place.ITERATION: "training",
    Place.VALIDATION: "validating",
    Place.REPLAY: "replaying a micro-batch",
    Place.SAVING: "saving",
    Place.ENDING: "ending",
    Place.ENDED: "ending",
}


@dataclass(frozen=True)
class ReportedHang:
    """A hang that ended a segment."""

    first_failure: FirstFailure
    """The first of the ranks that caused the hang."""
    message: str
    """Description of the hang for the segment's record: ranks, hosts, iteration, what they did, and the stacks."""


class RankWatch:
    """Watch of the ranks of one segment."""

    def __init__(self, paths: RunPaths, training: TrainingConfig, segment: int) -> None:
        """Prepare to watch, before the ranks start. Remove the heartbeats of earlier segments.

        Args:
            paths: paths of the run.
            training: configuration of the training. Without `heartbeat`, nothing is watched.
            segment: number of the segment.
        """
        self._paths, self._config, self._segment = paths, training.heartbeat, segment
        self._ranks = training.parallel.world_size
        self._launch = secrets.token_hex(8)
        self._seconds = beat_seconds(self._ranks)
        self._next_look = 0.0
        self._has_said_silent = False
        # A file that cannot be removed now must not prevent the training. Its beat does not change.
        shutil.rmtree(paths.heartbeats, ignore_errors=True)
        with contextlib.suppress(OSError):
            paths.heartbeats.mkdir(parents=True, exist_ok=True)
        self._detector = _detector(self._config, self._ranks, self._seconds)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that the processes need in addition to others."""
        return {LAUNCH_VARIABLE: self._launch}

    def look(self, process: subprocess.Popen[str]) -> ReportedHang | None:
        """Read the heartbeats if it is time. On a hang, collect the stacks, end `process` and return the hang.

        `process` must be the leader of its own session. It has the ranks of this node among its descendants.
        """
        if self._detector is None or time.monotonic() < self._next_look:
            return None
        found = read_heartbeats(self._paths.heartbeats)
        now = time.monotonic()
        self._next_look = now + self._seconds
        hang = self._detector.look(now, {rank: beat for rank, beat in found.items() if beat.launch == self._launch})
        beats = self._detector.beats
        self._say_silent()
        if hang is None:
            return None
        folder = self._new_folder()
        reported = _report(hang, beats, self._ranks, folder)
        say(reported.message)
        if folder is not None:
            self._collect_stacks(folder, hang, beats)
        self._end(process)
        return reported

    def _say_silent(self) -> None:
        assert self._detector is not None
        silent = self._detector.silent_seconds
        if not silent:
            self._has_said_silent = False
        elif silent > _SAY_SILENT_SECONDS and not self._has_said_silent:
            self._has_said_silent = True
            say(
                f"no rank has written its heartbeat for {format_seconds(silent)}; the file system of "
                f"{self._paths.heartbeats} may be slow, so the training is not ended"
            )

    def _new_folder(self) -> Path | None:
        """Create the folder for the stacks of this hang. Return None if it cannot be created."""
        number = 1
        with contextlib.suppress(OSError):
            while (folder := self._paths.hangs / f"{self._segment}-{number}").exists():
                number += 1
            folder.mkdir(parents=True)
            return folder
        return None

    def _collect_stacks(self, folder: Path, hang: Hang, beats: Mapping[int, Heartbeat]) -> None:
        """Ask all ranks for their stacks and wait for them. Ranks that do not answer are listed in no-stacks.txt."""
        with contextlib.suppress(BloomeryError):
            write_text(stacks_request(self._paths.heartbeats, self._launch), str(folder.resolve()))
        answering = {rank for rank in beats if not (hang.silent and rank in hang.ranks)}
        _wait(lambda: not _without_stacks(folder, answering), self._seconds + _STACKS_SECONDS)
        reasons: dict[int, str] = {}
        for rank in _without_stacks(folder, {*range(self._ranks)}):
            reasons[rank] = _ask_by_signal(beats.get(rank), str(self._paths.run))
        if reasons:
            time.sleep(_SIGNAL_SECONDS)
            text = "".join(f"rank {rank}: {reasons[rank]}\n" for rank in sorted(reasons))
            with contextlib.suppress(BloomeryError):
                write_text(folder / "no-stacks.txt", text)

    def _end(self, process: subprocess.Popen[str]) -> None:
        """End all processes of the segment on all nodes."""
        with contextlib.suppress(BloomeryError):
            write_text(end_request(self._paths.heartbeats, self._launch), "hang\n")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
            return
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        end_processes(process)


def _detector(config: HeartbeatConfig | None, ranks: int, seconds: float) -> HangDetector | None:
    return None if config is None else HangDetector(ranks, 60.0 * config.first_minutes, seconds)


def _report(hang: Hang, beats: Mapping[int, Heartbeat], ranks: int, folder: Path | None) -> ReportedHang:
    """Describe a hang. The first of its ranks counts as the first failure."""
    first = hang.ranks[0]
    beat = beats.get(first)
    host = "an unknown host" if beat is None else beat.host
    ending = f"made no progress for {hang.seconds:.0f} s"
    shown = ", ".join(
        f"{rank} on {beats[rank].host}" if rank in beats else f"{rank} (which wrote no heartbeat)"
        for rank in hang.ranks[:_NAMED_RANKS]
    )
    if len(hang.ranks) > _NAMED_RANKS:
        shown += f" and {len(hang.ranks) - _NAMED_RANKS} more"
    one = len(hang.ranks) == 1
    message = f"the training hung{_place(hang, beats)}: rank{'s' * (not one)} {shown} {ending}"
    if hang.silent:
        message += f"; {'its process is' if one else 'their processes are'} stopped, or the node failed"
    elif len(hang.ranks) < ranks:
        message += f"; the other ranks wait for {'it' if one else 'them'}"
    if folder is not None:
        message += f"; stacks are in {folder}"
    return ReportedHang(FirstFailure(rank=first, host=host, ending=ending), message)


def _place(hang: Hang, beats: Mapping[int, Heartbeat]) -> str:
    """Describe what the training does. The last record of a silent rank can be too old for this."""
    known = [rank for rank in beats if (rank in hang.ranks) != hang.silent] or list(beats)
    if not known:
        return ""
    beat = max((beats[rank] for rank in known), key=lambda each: each.iteration)
    if beat.place is Place.ITERATION and beat.iteration:
        return f" in iteration {beat.iteration}"
    return f" while {_DOING[beat.place]}" + (f" after iteration {beat.iteration}" if beat.iteration else "")


def _without_stacks(folder: Path, ranks: set[int]) -> set[int]:
    return {rank for rank in ranks if not (folder / f"{rank}.txt").exists()}


def _ask_by_signal(beat: Heartbeat | None, run: str) -> str:
    """Ask a rank of this host for its stacks by a signal. Return why the rank wrote no file with its stacks.

    `run` is the folder of the run, which the command line of each rank contains.
    """
    if beat is None:
        return "it wrote no heartbeat"
    if beat.place is Place.ENDED:
        return "it has ended its work"
    if beat.host != os.uname().nodename:
        return f"it does not answer on {beat.host}"
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(beat.pid)
        # Another process may have the number of a process that has ended.
        if run not in process.cmdline():
            return "its process has ended"
        if process.status() == psutil.STATUS_STOPPED:
            return f"process {beat.pid} is stopped (by SIGSTOP, or by a debugger)"
        process.send_signal(signal.SIGUSR2)
        return f"its threads did not answer; the stacks are at the end of train/logs/ranks/{beat.rank}.log"
    return "its process has ended"


def _wait(is_done: Callable[[], bool], seconds: float) -> None:
    """Wait until `is_done()` returns true, for at most `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_done() and time.monotonic() < deadline:
        time.sleep(0.1)
