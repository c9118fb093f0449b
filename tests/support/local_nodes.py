"""Nodes of a training as threads of one process, whose torchrun is replaced by a small real program."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fabricated_training import stage
from ranks import free_port

from bloomery.contracts.paths import RunPaths
from training.nodes import follow, node_group
from training.nodes.follow import Follower
from training.nodes.node_group import NodeGroup
from training.nodes.place import NodePlace
from training.processes.stop_signals import StopSignals

CONFIGURATION = "digest of a configuration"


class LocalNode:
    """A follower in a thread. `error` is the error with which it ended."""

    def __init__(self, follower: Follower) -> None:
        self.error: BaseException | None = None
        self.stop = StopSignals(raise_error=False)
        self._follower = follower
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._follower.follow(self.stop)
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the node did not end"


class LocalNodes:
    """A run folder, a port, and the nodes of a training."""

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = RunPaths(run)
        self.place = NodePlace(2, 0, 1, "127.0.0.1", free_port(), silence_seconds=4, wait_minutes=1)
        self.program = "pass"
        monkeypatch.setattr(NodePlace, "torchrun", lambda *_: [sys.executable, "-S", "-c", self.program])
        for module, names in ((node_group, ("_GRACE_SECONDS",)), (follow, ("_GRACE_SECONDS", "_RETRY_SECONDS"))):
            for name in names:
                monkeypatch.setattr(module, name, 0.05)

    @contextlib.contextmanager
    def group(self, *, exit_code: int = 0, message: str = "the training is finished") -> Iterator[NodeGroup]:
        """Run node 0. At the end, the other nodes are told `exit_code` and `message`."""
        group = NodeGroup(self.place, self.paths, CONFIGURATION, None)
        try:
            yield group
        finally:
            group.close(exit_code, message, linger=lambda: False)

    def node(self, rank: int = 1, *, run: Path | None = None, **changes: object) -> LocalNode:
        """Start another node. `changes` replace values of its place or of the follower."""
        values = {"config": self.paths.config / "train.json", "ended": self.paths.finished}
        values |= {"paths": RunPaths(run) if run else self.paths, "configuration": CONFIGURATION, "segment": None}
        for name in values.keys() & changes.keys():
            values[name] = changes.pop(name)
        return LocalNode(Follower(place=replace(self.place, rank=rank, **changes), stage=stage(), **values))
