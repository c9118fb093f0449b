"""Connected components of a graph that does not fit into memory.

Edges are stored in temporary files, one per bucket of nodes. Only one bucket is in memory at a time. Two steps, called
large-star and small-star, alternate until nothing changes (Kiveris et al., "Connected Components in MapReduce and
Beyond", SoCC 2014). They connect every node to the smallest node of its component. The number of rounds grows with the
logarithm of the size of the graph.
"""

from __future__ import annotations

import contextlib
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from bloomery.base.atomic import explained

Pairs = npt.NDArray[np.int64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_WORKING_COPIES = 8
"""Bytes of memory per byte of a bucket: the edges in both directions, the sort index, and copies during the sort."""
MOST_FILES = 512


def mix(nodes: Pairs) -> npt.NDArray[np.uint64]:
    """Return a hash of each node: the high bits of a product. Consecutive nodes get unrelated hashes."""
    return (nodes.astype(np.uint64) * _MIX) >> np.uint64(32)


def by_hash(nodes: Pairs, count: int) -> Pairs:
    """Return the bucket of each node, from 0 to `count` - 1."""
    return (mix(nodes) % np.uint64(count)).astype(np.int64)


def allow_files(count: int) -> None:
    """Raise the limit on open files of this process to `count`, or to the hard limit if that is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Buckets:
    """Rows of int64 in unnamed temporary files, one file per bucket."""

    def __init__(self, count: int, width: int, folder: Path) -> None:
        """Set up `count` files in `folder` for rows of `width` numbers. Leaving the `with` block deletes the files."""
        self._count = count
        self._width = width
        self._folder = folder
        self._files: list[IO[bytes]] = []
        self.rows = 0

    def __enter__(self) -> Buckets:
        """Create the files."""
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        allow_files(8 * MOST_FILES)
        with contextlib.ExitStack() as stack, explained(folder):
            # Each file has a small buffer, because hundreds of files may be open.
            self._files = [
                stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=1 << 14)) for _ in range(self._count)
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files, which deletes them."""
        self._stack.close()

    def distribute(self, rows: Pairs) -> None:
        """Append rows [n, width], each to the bucket that the hash of its first number selects."""
        self.add(rows, by_hash(rows[:, 0], self._count))

    def add(self, rows: Pairs, bucket: Pairs) -> None:
        """Append rows [n, width]. `bucket` [n] has the number of each row's bucket."""
        order = np.argsort(bucket, kind="stable")
        cuts = np.searchsorted(bucket[order], np.arange(self._count + 1))
        rows = np.ascontiguousarray(rows[order])
        with explained(self._folder):
            for number in np.flatnonzero(np.diff(cuts)):
                self._files[number].write(rows[cuts[number] : cuts[number + 1]].tobytes())
        self.rows += len(rows)

    def read(self) -> Iterator[Pairs]:
        """Yield the rows of each bucket, one bucket at a time."""
        for number in range(self._count):
            yield self.bucket(number)

    def bucket(self, number: int) -> Pairs:
        """Return the rows of one bucket."""
        self._files[number].seek(0)
        return np.frombuffer(self._files[number].read(), np.int64).reshape(-1, self._width)


def bucket_count(rows: int, width: int, memory_bytes: int) -> int:
    """Return the number of buckets for which the working copies of one bucket fit into `memory_bytes`.

    The estimate assumes that nodes have similar degrees. The number is at most `MOST_FILES`.
    """
    return min(MOST_FILES, max(1, -(-rows * width * 8 * _WORKING_COPIES // memory_bytes)))


def components(edges: Iterator[Pairs], count: int, memory_bytes: int, folder: Path) -> Iterator[Pairs]:
    """Yield batches [n, 2] of (node, smallest node of its component). The smallest nodes themselves are left out.

    Args:
        edges: batches [n, 2] of pairs of nodes >= 0.
        count: number of edges, or an upper bound.
        memory_bytes: memory for one bucket, in bytes. The edges of one node are never split, so one node may take more.
        folder: folder for temporary files of 32 bytes per edge.
    """
    buckets = bucket_count(2 * count, 2, memory_bytes)
    before = None
    with contextlib.ExitStack() as stack:
        while True:
            # The files of the previous round stay open during this round, because `edges` reads them.
            with stack.pop_all(), Buckets(buckets, 2, folder) as both:
                for batch in edges:
                    both.distribute(np.concatenate([batch, batch[:, ::-1]]))
                with Buckets(buckets, 2, folder) as upward:
                    for rows in both.read():
                        upward.distribute(_large_star(rows))
                    stars = stack.enter_context(Buckets(buckets, 2, folder))
                    fingerprint = _small_stars(upward, stars)
            if fingerprint == before:
                # Every edge now leads to the smallest node. Copies of an edge are in one bucket, so `unique_rows`
                # removes them.
                yield from (unique_rows(rows) for rows in stars.read() if len(rows))
                return
            before, edges = fingerprint, stars.read()


def _small_stars(upward: Buckets, stars: Buckets) -> tuple[int, int]:
    """Fill `stars` and return a fingerprint of its edges. If two rounds have the same fingerprint, nothing changed."""
    total = np.zeros(1, np.uint64)
    for rows in upward.read():
        star = _small_star(rows)
        stars.distribute(star)
        with np.errstate(over="ignore"):
            total += np.sum((star[:, 0].astype(np.uint64) * _MIX) ^ star[:, 1].astype(np.uint64), dtype=np.uint64)
    return stars.rows, int(total[0])


def unique_rows(rows: Pairs) -> Pairs:
    """Return the rows [n, 2] sorted and without repetitions."""
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = np.any(rows[1:] != rows[:-1], axis=1)
    return rows[new]


def _least(rows: Pairs) -> tuple[Pairs, Pairs]:
    """Return the unique rows sorted by first node, and for each row the smallest node near its first node.

    The nodes near a node are the node itself and all its neighbours.
    """
    rows = unique_rows(rows)
    if not len(rows):
        return rows, np.empty(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], rows[1:, 0] != rows[:-1, 0]]))
    least = np.minimum(rows[starts, 1], rows[starts, 0])
    return rows, np.repeat(least, np.diff(np.append(starts, len(rows))))


def _large_star(rows: Pairs) -> Pairs:
    """Connect every larger neighbour of a node to the smallest of the node and its neighbours."""
    rows, least = _least(rows)
    larger = rows[:, 1] > rows[:, 0]
    return np.stack([rows[larger, 1], least[larger]], axis=1)


def _small_star(rows: Pairs) -> Pairs:
    """Connect every node and its smaller neighbours to the smallest of them. Rows are (node, smaller node)."""
    rows, least = _least(rows)
    hung = np.concatenate([np.stack([rows[:, 0], least], axis=1), np.stack([rows[:, 1], least], axis=1)])
    return unique_rows(hung[hung[:, 0] != hung[:, 1]])
