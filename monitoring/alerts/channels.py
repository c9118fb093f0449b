"""Send messages to receivers: the run's own list, a file, a program, and the services that apprise knows.

Secrets come only from the environment. The name of a receiver never contains its URL.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.config.alerts import AlertsConfig
from bloomery.contracts.paths import RunPaths
from monitoring.alerts.ledger import LOG_RECEIVER
from monitoring.alerts.state import LOG_NAME, Message

_TAIL_BYTES = 1 << 16
"""Number of bytes at the end of a list of messages. A message that they contain is not added again. They have space for
about 100 messages."""


class Channel(Protocol):
    """Channel through which messages are sent to one receiver."""

    @property
    def name(self) -> str:
        """Name of the receiver, without secrets."""
        ...

    def send(self, message: Message, seconds: float) -> None:
        """Send a message within `seconds`.

        Raises:
            TryAgainError: the receiver did not accept the message. The error contains no secret.
        """


@dataclass(frozen=True)
class FileChannel:
    """A file to which messages are appended, one line of JSON each. A message that the file already has is not added
    again."""

    name: str
    path: Path

    def send(self, message: Message, seconds: float) -> None:
        """Append the message, and write it to the disk.

        Raises:
            TryAgainError: the file cannot be written.
        """
        line = json.dumps(message.public, ensure_ascii=False, sort_keys=True).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                end = os.fstat(descriptor).st_size
                tail = os.pread(descriptor, _TAIL_BYTES, max(0, end - _TAIL_BYTES))
                if line in tail:
                    return
                # A killed watcher may have left an unfinished line.
                os.write(descriptor, line if not tail or tail.endswith(b"\n") else b"\n" + line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise TryAgainError(
                f"the file cannot be written ({error.strerror})",
                where=str(self.path),
                expected="a file with free space",
            ) from error


@dataclass(frozen=True)
class CommandChannel:
    """A program that gets each message as JSON on its standard input."""

    name: str
    command: Sequence[str]

    def send(self, message: Message, seconds: float) -> None:
        """Run the program.

        Raises:
            TryAgainError: the program failed, or did not end in time.
        """
        _run(self.command, message.public, seconds, what=f"the program {self.command[0]}")


@dataclass(frozen=True)
class ServiceChannel:
    """A service that the package apprise knows. A separate process sends the message, so that a slow send can be ended
    and no log of apprise shows the URL."""

    name: str
    url: str

    def __repr__(self) -> str:
        return f"ServiceChannel({self.name})"

    def send(self, message: Message, seconds: float) -> None:
        """Send the message to the service.

        Raises:
            TryAgainError: the service did not accept the message in time, or the package apprise is not installed.
        """
        command = [sys.executable, "-m", "monitoring.alerts.send_service"]
        _run(command, message.public | {"url": self.url}, seconds, what="the service")


def _run(command: Sequence[str], value: object, seconds: float, *, what: str) -> None:
    """Run a program with a value as JSON on its standard input. Kill all processes of its session after `seconds`."""
    expected = "a receiver that accepts the message"
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise TryAgainError(f"{what} cannot be started ({error.strerror})", expected=expected) from error
    try:
        _, talk = process.communicate(json.dumps(value).encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise TryAgainError(f"{what} did not answer within {seconds:g} s", expected=expected) from None
    if process.returncode:
        last = talk.decode("utf-8", "replace").strip().splitlines()[-1:]
        reason = last[0][:300] if last else f"exit code {process.returncode}"
        raise TryAgainError(f"{what} failed: {reason}", expected=expected)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stderr):
        if stream is not None:
            stream.close()


def log_channel(paths: RunPaths) -> FileChannel:
    """Return the channel that appends to the run's own list of messages."""
    return FileChannel(LOG_RECEIVER, paths.alerts / LOG_NAME)


def channels(paths: RunPaths, settings: AlertsConfig, environment: Mapping[str, str]) -> dict[str, Channel]:
    """Return the channels of all receivers in the configuration and in this process's environment, by name."""
    found: list[Channel] = [log_channel(paths)]
    if settings.file is not None:
        found.append(FileChannel("file", Path(settings.file)))
    if settings.command:
        found.append(CommandChannel("command", tuple(settings.command)))
    for variable in settings.urls_from:
        urls = environment.get(variable, "").split()
        found += [ServiceChannel(f"{variable}[{number}]", url) for number, url in enumerate(urls, start=1)]
    return {channel.name: channel for channel in found}


def reason_of(error: BloomeryError) -> str:
    """Return the message of a failure, on one line."""
    return " ".join(error.what.split())
