"""Write this rank's heartbeat in a thread, and write the stacks of this rank when the launcher asks for them.

The thread works while the main thread waits in a collective. If the process is stopped, or its node is dead, the
heartbeat ends, so the launcher can distinguish these cases. An error of the file system never ends the training: the
thread tries again at the next beat.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bloomery.base.times import utc_now
from bloomery.config.training_loop import HeartbeatConfig
from bloomery.contracts.heartbeat import (
    LAUNCH_VARIABLE,
    Heartbeat,
    Place,
    beat_seconds,
    stacks_request,
    write_heartbeat,
)
from training.loop.rank_progress import PROGRESS
from training.parallel.count_calls import CallCounter

_FLIGHT_RECORDER_ENTRIES = "2000"
"""Number of past communications that torch's flight recorder keeps. This number is usual for NCCL."""


class RankHeartbeat:
    """The heartbeat of this rank."""

    def __init__(self, folder: Path, config: HeartbeatConfig, *, rank: int, ranks: int, segment: int) -> None:
        """Start the thread. Call this before the process group is created.

        Args:
            folder: folder of heartbeats, which the launcher has created.
            config: limits of the detection of hangs.
            rank: rank of this process.
            ranks: number of ranks.
            segment: number of the segment.
        """
        self._folder, self._config, self._rank, self._segment = folder, config, rank, segment
        self._seconds = beat_seconds(ranks)
        self._launch = os.environ.get(LAUNCH_VARIABLE, "")
        self._beats = 0
        self._last = (-1, time.monotonic())
        self._has_written_stacks = False
        self._ended = threading.Event()
        self._calls = CallCounter(_count)
        self._calls.install()
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", _FLIGHT_RECORDER_ENTRIES)
        # The launcher sends this signal if the thread does not answer, for example because a C function holds Python's
        # lock. The stacks then appear in the rank's log.
        faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Record that this rank has ended its work, and end the thread."""
        PROGRESS.enter(Place.ENDED)
        self._ended.set()
        self._thread.join(self._seconds)

    def _run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                write_heartbeat(self._folder, self._beat())
                self._write_stacks()
            if PROGRESS.place is Place.ENDED:
                return
            self._ended.wait(self._seconds)

    def _beat(self) -> Heartbeat:
        """Return the record of this moment."""
        now, count = time.monotonic(), PROGRESS.count
        if count != self._last[0]:
            self._last = (count, now)
        self._beats += 1
        return Heartbeat(
            rank=self._rank,
            host=os.uname().nodename,
            pid=os.getpid(),
            launch=self._launch,
            segment=self._segment,
            iteration=PROGRESS.iteration,
            place=PROGRESS.place,
            beat=self._beats - 1,
            progress=count,
            idle_seconds=now - self._last[1],
            allowed_seconds=PROGRESS.allowed_seconds(self._config),
            time=utc_now(),
            call=self._calls.current(),
            channels=self._calls.channels(),
        )

    def _write_stacks(self) -> None:
        """Write the stacks of all threads and torch's flight recorder if the launcher asks for them."""
        request = stacks_request(self._folder, self._launch)
        if self._has_written_stacks or not request.exists():
            return
        target = Path(request.read_text(encoding="utf-8"))
        self._has_written_stacks = True
        # The launcher waits for the stacks, so write what may take longer before them.
        with (target / f"{self._rank}-communications.json").open("wb") as recorded:
            recorded.write(_flight_recorder())
        with (target / f"{self._rank}.part").open("w", encoding="utf-8") as stacks:
            stacks.write(f"rank {self._rank}, process {os.getpid()} on {os.uname().nodename}, {utc_now()}\n")
            stacks.flush()
            faulthandler.dump_traceback(stacks, all_threads=True)
        (target / f"{self._rank}.part").rename(target / f"{self._rank}.txt")


def _count() -> None:
    PROGRESS.count += 1


def _flight_recorder() -> bytes:
    """Return the last communications of this rank as JSON: torch's flight recorder, for NCCL and for gloo."""
    from torch._C import _distributed_c10d

    dump: Callable[..., bytes] = _distributed_c10d._dump_fr_trace_json  # type: ignore[attr-defined]
    return dump(includeCollectives=True, onlyActive=False)


def start_heartbeat(
    folder: Path, config: HeartbeatConfig | None, *, rank: int, ranks: int, segment: int
) -> RankHeartbeat | None:
    """Start the heartbeat of this rank (see `RankHeartbeat`). Return None if `config` is None."""
    if config is None:
        return None
    return RankHeartbeat(folder, config, rank=rank, ranks=ranks, segment=segment)
