"""Sum the counts of pieces in bounded memory, with an external merge sort over (piece, dataset).

Adding: rows (piece, dataset, count) are collected until there are more than `PENDING_ROWS` rows. Then the rows are
sorted, and the counts of rows with equal piece and dataset are added. If at most half of `PENDING_ROWS` rows remain,
collecting continues. Otherwise the sorted rows become a run in a temporary file. The file has no name, so the operating
system removes it even if the process is killed.

Reading: all runs are merged. The first unread rows of each run are in memory. Each run has a last piece in memory, and
the smallest of these last pieces is the bound. All rows with pieces below the bound are in memory, so these rows are
sorted, summed and yielded. All rows of a piece are in one table. The result depends neither on the order of the rows
nor on `PENDING_ROWS`.

Memory: about 120 bytes per row in memory. Adding holds up to `PENDING_ROWS` rows (0.25 GB for 2 M rows). Merging holds
half of `PENDING_ROWS` rows or 2 x `BLOCK_ROWS` rows per run, whichever is more.

Arithmetic for 1.6 TB of text: 6,400 shards of 1 M rows give at most 3,200 runs of 2 M rows. The runs take 200 GB on
disk if no two shards of a run have a piece in common. Merging holds 6.5 M rows (0.8 GB) in memory. Reading and sorting
take 0.5 us per row, about an hour in total.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.atomic import explained

PENDING_ROWS = 2_000_000
BLOCK_ROWS = 1_024
RUN_SCHEMA = pa.schema([("piece", pa.large_binary()), ("dataset", pa.int32()), ("count", pa.int64())])


class Sums:
    """Sums of counts per (piece, dataset), as rows of `RUN_SCHEMA`.

    Iteration yields the rows in sorted order and can be repeated.
    """

    def __init__(self, folder: Path, pending_rows: int | None = None) -> None:
        """Spill to a file in `folder` when there are more than `pending_rows` rows (default `PENDING_ROWS`)."""
        self._folder = folder
        self._limit = PENDING_ROWS if pending_rows is None else pending_rows
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._file: IO[bytes] | None = None
        self._runs: list[npt.NDArray[np.int64]] = []  # per run: file offset of each block, then the run's end
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def rows(self) -> int:
        """Number of rows on disk and in memory. It is at least the number of different pieces."""
        return self._rows + self._pending_rows

    @property
    def runs(self) -> int:
        """Number of sorted runs that were spilled to disk."""
        return len(self._runs)

    def add(self, rows: pa.Table) -> None:
        """Add rows, in any order."""
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        if self._pending_rows > self._limit:
            self._settle()
            if self._pending_rows * 2 > self._limit:
                self._spill()

    def finish(self) -> None:
        """Sum the rows in memory. Call this after the last `add` and before iterating."""
        self._settle()

    def _settle(self) -> None:
        table = _summed(self._pending)
        self._pending, self._pending_rows = [table], table.num_rows

    def _spill(self) -> None:
        with explained(self._folder):
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = _nameless_file(self._folder)
            ends = [self._file.tell()]
            for block in self._pending[0].to_batches(max_chunksize=BLOCK_ROWS):
                self._file.write(block.serialize())
                ends.append(self._file.tell())
            self._file.flush()
        self._runs.append(np.array(ends))
        self._rows += self._pending_rows
        self._pending, self._pending_rows = [], 0

    def _read_back(self, ends: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
        assert self._file is not None
        for start, end in pairwise(ends.tolist()):
            block = pa.py_buffer(os.pread(self._file.fileno(), end - start, start))
            yield pa.Table.from_batches([pa.ipc.read_record_batch(block, RUN_SCHEMA)])

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield tables of sums, sorted by (piece as bytes, dataset number). All rows of a piece are in one table."""
        blocks = [self._read_back(ends) for ends in self._runs]
        blocks += [_blocks(table) for table in self._pending]
        rows = max(BLOCK_ROWS, self._limit // (4 * max(len(blocks), 1)))
        runs = [_Run(of_run) for of_run in blocks]
        while True:
            for run in runs:
                run.fill(rows)
            runs = [run for run in runs if run.rows]
            if not runs:
                return
            ends = [run.last for run in runs if not run.finished]
            bound = min(ends) if ends else None
            taken = [run.take_below(bound) for run in runs]
            yield _summed(taken) if len(taken) > 1 else taken[0]


class _Run:
    """Rows of a sorted run that have been read but not yet yielded."""

    def __init__(self, blocks: Iterator[pa.Table]) -> None:
        self._blocks = blocks
        self._ahead: list[pa.Table] = []
        self.rows = 0
        self.finished = False

    def fill(self, rows: int) -> None:
        """Read until at least `rows` rows with two or more different pieces are in memory, or the run ends."""
        while not self.finished and (self.rows < rows or self._first == self.last):
            block = next(self._blocks, None)
            if block is None:
                self.finished = True
            elif block.num_rows:
                self._ahead.append(block)
                self.rows += block.num_rows

    @property
    def _first(self) -> bytes:
        return bytes(self._ahead[0]["piece"][0].as_py())

    @property
    def last(self) -> bytes:
        """The last piece that has been read."""
        return bytes(self._ahead[-1]["piece"][-1].as_py())

    def take_below(self, bound: bytes | None) -> pa.Table:
        """Remove and return the rows whose pieces are below `bound`, or all rows if `bound` is None."""
        ahead = pa.concat_tables(self._ahead)
        size = ahead.num_rows if bound is None else _rows_below(ahead["piece"], bound)
        self._ahead = [ahead.slice(size)] if size < ahead.num_rows else []
        self.rows -= size
        return ahead.slice(0, size)


def _nameless_file(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=folder)


def _rows_below(pieces: pa.ChunkedArray, bound: bytes) -> int:
    low, high = 0, len(pieces)
    while low < high:
        middle = (low + high) // 2
        if pieces[middle].as_py() < bound:
            low = middle + 1
        else:
            high = middle
    return low


def _blocks(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, BLOCK_ROWS):
        yield table.slice(start, BLOCK_ROWS)


def _summed(tables: list[pa.Table]) -> pa.Table:
    """Add the counts of rows with equal piece and dataset, and return the rows sorted by (piece, dataset)."""
    table = pa.concat_tables([RUN_SCHEMA.empty_table(), *tables]).combine_chunks()
    if table.num_rows < 2:
        return table
    table = table.take(pc.sort_indices(table, [("piece", "ascending"), ("dataset", "ascending")])).combine_chunks()
    first = starts(table["piece"]) | starts(table["dataset"])
    if first.all():
        return table
    counts = np.add.reduceat(np.asarray(table["count"]), np.flatnonzero(first))
    return table.filter(pa.array(first)).set_column(2, "count", pa.array(counts))


def starts(sorted_values: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the values that differ from the previous value, bool [n].

    The first value counts as different. `sorted_values` must not be empty.
    """
    values = sorted_values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0)
    return np.concatenate([[True], np.asarray(pc.not_equal(values[1:], values[:-1]))])
