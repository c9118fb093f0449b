"""Run a Hub on a loopback port in its own process, and make the environment of programs that use the Hub.

The client reads HF_ENDPOINT, HF_HOME and other variables on import, so tests use the client in separate processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repository import ROOT

TOKEN = "hf_" + "secretfortests"
USER = "tester"


@dataclass
class HubServer:
    """The running server, which tests query over plain HTTP."""

    url: str
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def call(self, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()

    def send(self, method: str, path: str, data: bytes) -> bytes:
        request = urllib.request.Request(self.url + path, data, {"Authorization": f"Bearer {TOKEN}"}, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()

    def read(self, path: str, body: Any = None) -> Any:
        return json.loads(self.call(path, body))

    def faults(self, *faults: dict[str, Any]) -> None:
        self.read("/_test/faults", list(faults))

    def has(self, repository: str) -> bool:
        try:
            self.read(f"/api/models/{repository}")
        except urllib.error.HTTPError:
            return False
        return True

    def paths(self, repository: str, revision: str = "main") -> list[str]:
        tree = self.read(f"/api/models/{repository}/tree/{revision}?recursive=true")
        return sorted(entry["path"] for entry in tree if entry["type"] == "file")

    def file(self, repository: str, path: str, revision: str = "main") -> bytes:
        return self.call(f"/{repository}/resolve/{revision}/{path}")

    def commits(self, repository: str) -> list[str]:
        return [commit["id"] for commit in self.read(f"/api/models/{repository}/commits/main")]

    def tags(self, repository: str) -> dict[str, str]:
        refs = self.read(f"/api/models/{repository}/refs")
        return {tag["name"]: tag["targetCommit"] for tag in refs["tags"]}


def client_environment(**changes: str) -> dict[str, str]:
    """Return the environment of this process without variables of a Hub, and with `changes`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING", "HUB_"))}
    return kept | {"HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"} | changes


def start_server(folder: Path, port: int = 0, **settings: str) -> tuple[subprocess.Popen[str], str]:
    """Start the server (tests/integration/hub/hub_server). Return its process and its address."""
    command = [sys.executable, "-m", "hub_server", "--data", str(folder), "--token", f"{TOKEN}:{USER}"]
    process = subprocess.Popen(
        [*command, "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env=client_environment(PYTHONPATH=str(ROOT / "tests/integration/hub"), **settings),
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@contextlib.contextmanager
def running_hub(folder: Path) -> Iterator[HubServer]:
    """Run a Hub. The data of the Hub and the home of its client are below `folder`."""
    process, url = start_server(folder / "hub")
    home = folder / "home"
    variables = client_environment(HF_ENDPOINT=url, HF_TOKEN=TOKEN, HF_HOME=str(home))
    try:
        yield HubServer(url, home, variables)
    finally:
        process.kill()
        process.wait()
