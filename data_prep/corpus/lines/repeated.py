"""Which lines are repeated: those of one partition that enough different documents of a source have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.atomic import read_json
from bloomery.base.digest import digest_json
from bloomery.base.progress import Progress
from bloomery.config.stages import RepeatedLinesStage
from bloomery.contracts.shard import TableWriter, read_manifest, read_span
from data_prep.corpus.lines.count import Hashes, count_records, read_runs, slots_of

REPEATED_SCHEMA = pa.schema([("source", pa.string()), ("line", pa.uint64()), ("documents", pa.int64())])
"""A repeated line of a source: hash of language and line, in how many different documents it is. Sorted by both."""

RECORD_BYTES = 96
"""What a record takes while its pass sorts it."""

_BLOCK_ROWS = 1 << 20


def lines_path(corpus: Path, part: str) -> Path:
    """The lines of a part (`source/00000`)."""
    return corpus / "lines" / f"{part}.parquet"


def repeated_path(corpus: Path, partition: int) -> Path:
    """The repeated lines of a partition."""
    return corpus / "repeated_lines" / f"{partition}.parquet"


def find_repeated_lines(
    stage: RepeatedLinesStage, corpus: Path, parts: Path, partition: int, output: Path
) -> dict[str, Any]:
    """Write the repeated lines of a partition into the table `output`; returns the manifest.

    Its `spans` say which rows are those of which source.

    Raises:
        InputError: a table of lines is missing or damaged.
    """
    tables: dict[str, list[Path]] = {}
    for part in sorted(read_json(parts)):
        tables.setdefault(part.split("/")[0], []).append(lines_path(corpus, part))
    spans: dict[str, list[int]] = {}
    with (
        TableWriter.open(output, REPEATED_SCHEMA) as writer,
        Progress(f"repeated lines {partition}", len(tables)) as bar,
    ):
        for source, paths in tables.items():
            start = writer.rows
            for lines, documents in _repeated(stage, paths, partition, stage.min_documents[source]):
                names = pa.array([source], pa.string()).take(pa.array(np.zeros(len(lines), np.int64)))
                writer.write(pa.record_batch([names, pa.array(lines), pa.array(documents)], schema=REPEATED_SCHEMA))
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
    """The sorted hashes of a source's repeated lines in a partition's table, block by block."""
    first, end = read_manifest(path)["counts"]["spans"].get(source, (0, 0))
    for start in range(first, end, _BLOCK_ROWS):
        yield read_span(path, start, min(start + _BLOCK_ROWS, end), ["line"])["line"].to_numpy()


def _repeated(
    stage: RepeatedLinesStage, paths: list[Path], partition: int, least: int
) -> Iterator[tuple[Hashes, npt.NDArray[np.int64]]]:
    """(lines, documents) of a source's repeated lines, ascending, one pass over the partition after the other.

    A pass takes an equal range of the partition's hashes, so that its records fit into the memory.
    """
    records = sum(count_records(path, partition) for path in paths)
    passes = max(1, -(-records * RECORD_BYTES // stage.memory_bytes))
    for number in range(passes):
        slot = partition * passes + number
        found: list[pa.Table] = []
        for path in paths:
            for run in read_runs(path, partition, ["line", "content"]):
                if passes > 1:
                    run = run.filter(pa.array(slots_of(run["line"].to_numpy(), stage.partitions * passes) == slot))
                found.append(run)
        if found:
            table = pa.concat_tables(found)
            lines, contents = table["line"].to_numpy(), table["content"].to_numpy()
            del found, table
            yield _enough(lines, contents, least)


def _enough(lines: Hashes, contents: npt.NDArray[np.uint32], least: int) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """The lines that `least` or more different documents have, ascending, and how many have them."""
    # Most lines are rare: only those with records enough are looked at closely.
    order = np.argsort(lines)
    starts, lengths = _runs(lines[order])
    often = order[np.repeat(lengths >= least, lengths)]
    lines, contents = lines[often], contents[often]
    order = np.lexsort((contents, lines))
    lines, contents = lines[order], contents[order]
    new = np.ones(len(lines), np.bool_)
    new[1:] = (lines[1:] != lines[:-1]) | (contents[1:] != contents[:-1])
    lines = lines[new]
    starts, documents = _runs(lines)
    enough = documents >= least
    return lines[starts[enough]], documents[enough]


def _runs(ordered: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each run of equal values begins, and its length."""
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    return starts, np.diff(starts, append=len(ordered))
