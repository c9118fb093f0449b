"""Put the texts behind an incident beside it, while the training goes on.

A guard writes what it saw (`training.guards.incident`); the launcher, which only waits, has `bloomery trace` look up
the documents of those samples. Nothing of the training depends on it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.contracts.paths import RunPaths
from training.guards.incident import incident_files, read_incident, texts_path
from training.loop.die_with_parent import die_with_parent

MOST_SAMPLES = 4096
"""Of an incident: twice the global batch of BLOOM."""
_LOOK_SECONDS = 0.2


@dataclass
class _Trace:
    """A running `bloomery trace`, and where its output goes."""

    process: subprocess.Popen[bytes]
    temporary: Path
    target: Path


class IncidentTexts:
    """Looks for incidents without texts and fetches them, one at a time."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._tried: set[str] = set()
        self._running: _Trace | None = None
        self._given_up = False

    def look(self) -> bool:
        """Go on a little, without waiting; True while there is more to do.

        A full disk or no memory for another process ends the looking, not the training that waits behind it.
        """
        if self._given_up:
            return False
        try:
            return self._go_on()
        except OSError as error:
            self._given_up = True
            say(f"no more texts of incidents until the next start: {error}")
            return False

    def _go_on(self) -> bool:
        if self._running is not None:
            if self._running.process.poll() is None:
                return True
            ended, self._running = self._running, None
            self._take(ended)
        for path in incident_files(self._paths.incidents):
            if path.name in self._tried or texts_path(path).exists():
                continue
            self._tried.add(path.name)
            if (samples := _samples(path)) is not None:
                self._running = self._start(samples, texts_path(path))
                return True
        return False

    def finish(self, seconds: float) -> None:
        """Fetch what is left, for at most `seconds`; the rest is fetched at the next start."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.look():
            time.sleep(_LOOK_SECONDS)
        if self._running is not None:
            self._running.process.kill()
            self._running.process.wait()
            self._running.temporary.unlink(missing_ok=True)
            self._running = None

    def _start(self, samples: str, target: Path) -> _Trace:
        command = [sys.executable, "-m", "bloomery.cli", "trace", str(self._paths.run), "--samples", samples]
        temporary = target.with_name(f".{target.name}.tmp")
        with temporary.open("wb") as output:
            # Its talk and its errors go where ours go.
            command += ["--json", "--limit", str(MOST_SAMPLES)]
            process = subprocess.Popen(command, stdout=output, preexec_fn=die_with_parent)
        return _Trace(process, temporary, target)

    def _take(self, trace: _Trace) -> None:
        """Keep what a trace that ended has printed, or say why it failed."""
        if trace.process.returncode == 0:
            trace.temporary.replace(trace.target)
            say(f"the texts of an incident are in {trace.target}")
        else:
            trace.temporary.unlink(missing_ok=True)
            say(f"no texts of an incident: bloomery trace ended with code {trace.process.returncode} ({trace.target})")


def _samples(path: Path) -> str | None:
    """Samples of an incident as `bloomery trace` takes them; None: it is about none, or cannot be read."""
    try:
        incident = read_incident(path)
    except InputError as error:
        say(f"an incident cannot be read: {error}")
        return None
    if incident.from_sample is None or incident.to_sample is None:
        return None
    return f"{incident.from_sample}:{incident.to_sample}"
