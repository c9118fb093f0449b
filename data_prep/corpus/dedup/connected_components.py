"""Connected components of a graph that does not fit into memory.

Edges are kept in temporary files, one a bucket of nodes; only one bucket is held at a time. Two steps in turn, until
nothing changes, hang every node on the smallest node of its component (large-star and small-star of Kiveris et al.,
"Connected Components in MapReduce and Beyond", SoCC 2014): the number of rounds grows with the logarithm of the size.
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
"""Bytes held for one byte of a bucket: the bucket in both directions, its order, the copies while it is sorted."""
MOST_FILES = 512


def mix(nodes: Pairs) -> npt.NDArray[np.uint64]:
    """A number a node without regard to neighbours: high bits of a product."""
    return (nodes.astype(np.uint64) * _MIX) >> np.uint64(32)


def by_hash(nodes: Pairs, count: int) -> Pairs:
    """Bucket of each node, of `count`."""
    return (mix(nodes) % np.uint64(count)).astype(np.int64)


def allow_files(count: int) -> None:
    """Raise the limit on open files of this process to `count`, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Buckets:
    """Rows of int64 in temporary files without a name."""

    def __init__(self, count: int, width: int, folder: Path) -> None:
        """`count` files for rows of `width` numbers, in `folder`. Use as a context: the files go with it."""
        self._count = count
        self._width = width
        self._folder = folder
        self._files: list[IO[bytes]] = []
        self.rows = 0

    def __enter__(self) -> Buckets:
        """Open the files."""
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        allow_files(8 * MOST_FILES)
        with contextlib.ExitStack() as stack, explained(folder):
            # A small buffer each: there may be hundreds.
            self._files = [
                stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=1 << 14)) for _ in range(self._count)
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files, which removes them."""
        self._stack.close()

    def distribute(self, rows: Pairs) -> None:
        """Append rows [n, width], each to the bucket of its first number."""
        self.add(rows, by_hash(rows[:, 0], self._count))

    def add(self, rows: Pairs, bucket: Pairs) -> None:
        """Append rows [n, width], each to its `bucket` [n]."""
        order = np.argsort(bucket, kind="stable")
        cuts = np.searchsorted(bucket[order], np.arange(self._count + 1))
        rows = np.ascontiguousarray(rows[order])
        with explained(self._folder):
            for number in np.flatnonzero(np.diff(cuts)):
                self._files[number].write(rows[cuts[number] : cuts[number + 1]].tobytes())
        self.rows += len(rows)

    def read(self) -> Iterator[Pairs]:
        """The rows of each bucket, one bucket at a time."""
        for number in range(self._count):
            yield self.bucket(number)

    def bucket(self, number: int) -> Pairs:
        """The rows of one bucket."""
        self._files[number].seek(0)
        return np.frombuffer(self._files[number].read(), np.int64).reshape(-1, self._width)


def bucket_count(rows: int, width: int, memory_bytes: int) -> int:
    """How many buckets keep each one's working copies within `memory_bytes`, if nodes are of similar degree."""
    return min(MOST_FILES, max(1, -(-rows * width * 8 * _WORKING_COPIES // memory_bytes)))


def components(edges: Iterator[Pairs], count: int, memory_bytes: int, folder: Path) -> Iterator[Pairs]:
    """Batches [n, 2] of (node, smallest node of its component), for every node of an edge but the smallest ones.

    Args:
        edges: batches [n, 2] of pairs of nodes >= 0.
        count: number of edges, or more.
        memory_bytes: what one bucket may take; the edges of one node are never parted.
        folder: where temporary files may lie: 32 bytes an edge.
    """
    buckets = bucket_count(2 * count, 2, memory_bytes)
    before = None
    with contextlib.ExitStack() as stack:
        while True:
            # The next round's files are opened before the last one's are closed.
            with stack.pop_all(), Buckets(buckets, 2, folder) as both:
                for batch in edges:
                    both.distribute(np.concatenate([batch, batch[:, ::-1]]))
                with Buckets(buckets, 2, folder) as upward:
                    for rows in both.read():
                        upward.distribute(_large_star(rows))
                    stars = stack.enter_context(Buckets(buckets, 2, folder))
                    fingerprint = _small_stars(upward, stars)
            if fingerprint == before:
                # Every node is on one star now: its own bucket has it once.
                yield from (unique_rows(rows) for rows in stars.read() if len(rows))
                return
            before, edges = fingerprint, stars.read()


def _small_stars(upward: Buckets, stars: Buckets) -> tuple[int, int]:
    """Fill `stars`; returns a fingerprint of all its edges: when it stays, nothing changed."""
    total = np.zeros(1, np.uint64)
    for rows in upward.read():
        star = _small_star(rows)
        stars.distribute(star)
        with np.errstate(over="ignore"):
            total += np.sum((star[:, 0].astype(np.uint64) * _MIX) ^ star[:, 1].astype(np.uint64), dtype=np.uint64)
    return stars.rows, int(total[0])


def unique_rows(rows: Pairs) -> Pairs:
    """Rows [n, 2] sorted, each once."""
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = np.any(rows[1:] != rows[:-1], axis=1)
    return rows[new]


def _least(rows: Pairs) -> tuple[Pairs, Pairs]:
    """Unique rows sorted by the first column, and for each row the least of its first node and all its neighbours."""
    rows = unique_rows(rows)
    if not len(rows):
        return rows, np.empty(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], rows[1:, 0] != rows[:-1, 0]]))
    least = np.minimum(rows[starts, 1], rows[starts, 0])
    return rows, np.repeat(least, np.diff(np.append(starts, len(rows))))


def _large_star(rows: Pairs) -> Pairs:
    """Every larger neighbour of a node is hung on the node's smallest neighbour (or the node)."""
    rows, least = _least(rows)
    larger = rows[:, 1] > rows[:, 0]
    return np.stack([rows[larger, 1], least[larger]], axis=1)


def _small_star(rows: Pairs) -> Pairs:
    """Every node and its smaller neighbours are hung on the smallest of these. Rows are (node, smaller node)."""
    rows, least = _least(rows)
    hung = np.concatenate([np.stack([rows[:, 0], least], axis=1), np.stack([rows[:, 1], least], axis=1)])
    return unique_rows(hung[hung[:, 0] != hung[:, 1]])
