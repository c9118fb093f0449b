"""Two machines on one: two network namespaces that reach each other over a pair of virtual Ethernet devices."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

import pytest

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class TwoMachines:
    """Two network namespaces. A process in one of them has no other network than its loopback and the link."""

    ADDRESSES = ("10.231.77.1", "10.231.77.2")

    def __init__(self, ip: str) -> None:
        self._ip = ip
        self._names = tuple(f"bloomery-{os.getpid()}-{number}" for number in range(2))

    def create(self) -> None:
        for name in self._names:
            self._run("netns", "add", name)
            self._run("-n", name, "link", "set", "lo", "up")
        first, second = self._names
        peer = ("peer", "name", "link1", "netns", second)
        self._run("link", "add", "link0", "netns", first, "type", "veth", *peer)
        for number, name in enumerate(self._names):
            self._run("-n", name, "address", "add", f"{self.ADDRESSES[number]}/24", "dev", f"link{number}")
            self._run("-n", name, "link", "set", f"link{number}", "up")

    def remove(self) -> None:
        for name in self._names:
            with contextlib.suppress(subprocess.CalledProcessError):
                self._run("netns", "delete", name)

    def command(self, number: int, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` on machine `number`. The process ids are the same."""
        return [self._ip, "netns", "exec", self._names[number], *command]

    def set_link(self, state: str) -> None:
        """Connect the machines (`up`) or disconnect them (`down`)."""
        self._run("-n", self._names[1], "link", "set", "link1", state)

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._ip, *arguments], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def two_machines() -> Iterator[TwoMachines]:
    """Provide two connected machines. The test is skipped where network namespaces are impossible."""
    ip = shutil.which("ip", path=_PATH)
    if ip is None:
        pytest.skip("the program `ip` (Debian package iproute2) is missing")
    machines = TwoMachines(ip)
    try:
        try:
            machines.create()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this user cannot create network namespaces: {error.stderr.strip()}")
        yield machines
    finally:
        machines.remove()
