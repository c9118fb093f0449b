"""Save the texts of an incident's samples beside the incident while training continues.

A guard writes the incident (`training.guards.incident`). The launcher, which otherwise only waits, runs
`bloomery trace` to look up the documents of the samples. The training does not depend on the result.
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
"""Maximum number of samples of an incident whose documents are looked up. It is twice BLOOM's global batch."""
_LOOK_SECONDS = 0.2


@dataclass
class _Trace:
    """A running `bloomery trace` and the files for its output."""

    process: subprocess.Popen[bytes]
    temporary: Path
    target: Path


class IncidentTexts:
    """Find incidents without texts and fetch the texts, one incident at a time."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._tried: set[str] = set()
        self._running: _Trace | None = None
        self._given_up = False

    def look(self) -> bool:
        """Do the next step without blocking. Return True while a trace is running.

        After an OSError, such as a full disk or no memory for a process, stop fetching texts. Training continues.
        """
        if self._given_up:
            return False
        try:
            return self._go_on()
        except OSError as error:
            self._given_up = True
            say(
                f"cannot save the documents of the samples of incidents ({error}); the training continues, and its "
                "next start tries again"
            )
            return False

    def _go_on(self) -> bool:
        """Take over the output of a trace that ended, and start the next trace. Return True while one is running."""
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
        """Fetch the remaining texts for at most `seconds`. Texts still missing are fetched at the next start."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.look():
            time.sleep(_LOOK_SECONDS)
        if self._running is not None:
            self._running.process.kill()
            self._running.process.wait()
            self._running.temporary.unlink(missing_ok=True)
            self._running = None

    def _start(self, samples: str, target: Path) -> _Trace:
        """Start `bloomery trace` for `samples`, written as `from:to`."""
        command = [sys.executable, "-m", "bloomery.cli", "trace", str(self._paths.run), "--samples", samples]
        temporary = target.with_name(f".{target.name}.tmp")
        with temporary.open("wb") as output:
            # stderr is inherited, so the trace's messages appear in the launcher's log.
            command += ["--json", "--limit", str(MOST_SAMPLES)]
            process = subprocess.Popen(command, stdout=output, preexec_fn=die_with_parent)
        return _Trace(process, temporary, target)

    def _take(self, trace: _Trace) -> None:
        """Keep the output of a trace that ended, or report why the trace failed."""
        if trace.process.returncode == 0:
            trace.temporary.replace(trace.target)
            say(f"the documents of the samples of an incident are in {trace.target}")
        else:
            trace.temporary.unlink(missing_ok=True)
            say(
                f"cannot save the documents of the samples of an incident in {trace.target}: `bloomery trace` ended "
                f"with code {trace.process.returncode}; the training continues, and its next start tries again"
            )


def _samples(path: Path) -> str | None:
    """Return an incident's samples in the format of `bloomery trace --samples`.

    Return None if the incident does not concern samples or cannot be read.
    """
    try:
        incident = read_incident(path)
    except InputError as error:
        say(f"cannot read an incident, so the documents of its samples are not saved: {error}")
        return None
    if incident.from_sample is None or incident.to_sample is None:
        return None
    return f"{incident.from_sample}:{incident.to_sample}"
