"""Find the repeated lines of one partition: lines that occur in enough different documents of a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bloomery.base.digest import digest_json
from bloomery.base.progress import Progress
from bloomery.config.stages import RepeatedLinesStage
from bloomery.contracts.safe_path import read_part_names
from data_prep.corpus.lines.count_lines import LINES_SCHEMA, Hashes, slots_of
from data_prep.corpus.partitioned_tables import count_records, read_runs
from data_prep.formats.shard import TableWriter, read_manifest, read_span

REPEATED_SCHEMA = pa.schema([("source", pa.string()), ("line", pa.uint64())])
"""One row per repeated line of a source, sorted by source and line. `line` is a hash of language and line."""

RECORD_BYTES = 96
"""Bytes of memory per record while a pass sorts it."""

_BLOCK_ROWS = 1 << 20


def lines_path(corpus: Path, part: str) -> Path:
    """Return the path of the table of lines of a part (`source/00000`)."""
    return corpus / "lines" / f"{part}.parquet"


def repeated_path(corpus: Path, partition: int) -> Path:
    """Return the path of the table of repeated lines of a partition."""
    return corpus / "repeated_lines" / f"{partition}.parquet"


def find_repeated_lines(
    stage: RepeatedLinesStage, corpus: Path, parts: Path, partition: int, output: Path
) -> dict[str, Any]:
    """Write the repeated lines of a partition to the table `output` and return its manifest.

    `spans` in the manifest has the first row and the end (excluded) of each source.

    Raises:
        InputError: a table of lines is missing or damaged.
    """
    tables: dict[str, list[Path]] = {}
    for part in sorted(read_part_names(parts)):
        tables.setdefault(part.split("/")[0], []).append(lines_path(corpus, part))
    spans: dict[str, list[int]] = {}
    with (
        TableWriter.open(output, REPEATED_SCHEMA) as writer,
        Progress(f"find repeated lines of partition {partition}", len(tables), unit="sources") as bar,
    ):
        for source, paths in tables.items():
            start = writer.rows
            for lines in _repeated(stage, paths, partition, stage.min_documents[source]):
                names = pa.array([source], pa.string()).take(pa.array(np.zeros(len(lines), np.int64)))
                writer.write(pa.record_batch([names, pa.array(lines)], schema=REPEATED_SCHEMA))
            writer.end_group()
            spans[source] = [start, writer.rows]
            bar.advance()
    return writer.manifest(
        kind="repeated_lines",
        inputs={
            f"{path.parent.name}/{path.stem}": read_manifest(path)["file"]["digest"]
            for paths in tables.values()
            for path in paths
        },
        parameters=digest_json(stage.model_dump(mode="json", exclude={"memory_bytes"})),
        counts={"spans": spans},
    )


def read_repeated(path: Path, source: str) -> Iterator[Hashes]:
    """Yield the sorted hashes of a source's repeated lines from a partition's table, block by block."""
    first, end = read_manifest(path)["counts"]["spans"].get(source, (0, 0))
    for start in range(first, end, _BLOCK_ROWS):
        yield read_span(path, start, min(start + _BLOCK_ROWS, end), ["line"])["line"].to_numpy()


def _repeated(stage: RepeatedLinesStage, paths: list[Path], partition: int, least: int) -> Iterator[Hashes]:
    """Yield the hashes of a source's repeated lines in ascending order, one array per pass over the partition.

    The passes divide the hashes of the partition into equal ranges, so that the records of a pass fit into memory.
    """
    records = sum(count_records(path, partition) for path in paths)
    room = max(1, stage.memory_bytes // RECORD_BYTES)
    passes = max(1, -(-records // room))
    for number in range(passes):
        held = Records(least, room)
        for path in paths:
            for run in read_runs(path, partition, LINES_SCHEMA.names):
                if passes > 1:
                    slots = slots_of(run["line"].to_numpy(), stage.partitions * passes)
                    run = run.filter(pa.array(slots == partition * passes + number))
                held.add(run)
        yield held.repeated()


class Records:
    """Collects records of lines, and holds at most `least` different records of each line.

    So a line that occurs in a hundred million documents does not fill the memory.
    """

    def __init__(self, least: int, room: int) -> None:
        """Start without records. A line is repeated if at least `least` documents with different contents have it.

        The records are reduced whenever more than `room` of them are in memory.
        """
        self._least, self._room = least, room
        self._held: list[pa.Table] = []
        self.rows = 0
        """Number of records in memory."""

    def add(self, records: pa.Table) -> None:
        """Add records (`LINES_SCHEMA`) in any order."""
        self._held.append(records)
        self.rows += records.num_rows
        if self.rows > self._room:
            self._reduce()
            # If nearly all records are needed, the next reduction waits until their number has doubled.
            self._room = max(self._room, 2 * self.rows)

    def repeated(self) -> Hashes:
        """Return the hashes of the repeated lines (see `__init__`) in ascending order."""
        self._reduce()
        [table] = self._held
        lines = table["line"].to_numpy()
        last = np.zeros(len(lines), np.bool_)
        last[self._least - 1 :] = lines[self._least - 1 :] == lines[: max(0, len(lines) - self._least + 1)]
        found: Hashes = lines[last]
        return found

    def _reduce(self) -> None:
        """Sort the records and keep the first `least` different records of each line."""
        table = pa.concat_tables([LINES_SCHEMA.empty_table(), *self._held])
        lines, contents = (table[name].to_numpy() for name in LINES_SCHEMA.names)
        self._held = []
        del table
        order = np.lexsort((contents, lines))
        lines, contents = lines[order], contents[order]
        del order
        new = np.ones(len(lines), np.bool_)
        new[1:] = (lines[1:] != lines[:-1]) | (contents[1:] != contents[:-1])
        lines, contents = lines[new], contents[new]
        few = np.ones(len(lines), np.bool_)
        few[self._least :] = lines[self._least :] != lines[: max(0, len(lines) - self._least)]
        columns = [pa.array(lines[few]), pa.array(contents[few])]
        self._held = [pa.table(columns, schema=LINES_SCHEMA)]
        self.rows = len(columns[0])
