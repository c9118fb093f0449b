"""Exchange texts between all processes through torchrun's key-value store, before any process group exists.

A process group cannot be built if one node is broken, and its collectives would then wait for half an hour. Reads from
the store have a time limit, so rank 0 learns which processes did not report.
"""

from __future__ import annotations

import time
from datetime import timedelta

from torch.distributed import DistError
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

_PREFIX = "bloomery/preflight"


class Exchange:
    """Rank 0 collects the reports of all ranks and answers them."""

    def __init__(self, store: Store, rank: int, world: int) -> None:
        self._store, self._rank, self._world = store, rank, world

    @classmethod
    def connect(cls, rank: int, world: int, seconds: float) -> Exchange:
        """Connect to the store that MASTER_ADDR and MASTER_PORT name.

        Raises:
            RuntimeError: the store does not answer within `seconds`.
        """
        store, _, _ = next(rendezvous("env://", rank, world, timeout=timedelta(seconds=seconds)))
        return cls(PrefixStore(_PREFIX, store), rank, world)

    def report(self, topic: str, text: str) -> None:
        """Send this rank's report on `topic` to rank 0."""
        self._store.set(f"{topic}/{self._rank}", text)

    def collect(self, topic: str, seconds: float) -> list[str | None]:
        """Return the reports of all ranks, in their order. A report that does not arrive within `seconds` is None."""
        deadline = time.monotonic() + seconds
        return [self._wait(f"{topic}/{rank}", deadline - time.monotonic()) for rank in range(self._world)]

    def answer(self, topic: str, text: str) -> None:
        """Send rank 0's answer to all ranks."""
        self._store.set(f"{topic}/answer", text)

    def read_answer(self, topic: str, seconds: float) -> str | None:
        """Return rank 0's answer, or None if it does not arrive within `seconds`."""
        return self._wait(f"{topic}/answer", seconds)

    def _wait(self, key: str, seconds: float) -> str | None:
        """Return the value of a key, or None if the key does not appear within `seconds`."""
        try:
            # A report that has arrived before the deadline is also read after the deadline.
            self._store.wait([key], timedelta(seconds=max(seconds, 0.05)))
        except DistError:
            return None
        return self._store.get(key).decode()
