"""The lines of one shard's documents as hashes, partitioned by hash: equal lines meet in one partition.

A record is a line and what its document holds, so that copies of a document can be counted once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.digest import digest_json
from bloomery.base.progress import Progress
from bloomery.config.stages import LinesStage
from data_prep.corpus import _text
from data_prep.corpus.columns import flags_of, language_salts, text_buffers
from data_prep.formats.shard import TableWriter, iterate_batches, read_manifest

LINES_SCHEMA = pa.schema([("line", pa.uint64()), ("content", pa.uint32())])
"""A line of a document: hash of language and line, hash of the document's content."""

RUN_ROWS = 1 << 22
"""Records that are sorted by partition together: about 60 bytes each while they are sorted."""

Hashes = npt.NDArray[np.uint64]


def slots_of(lines: Hashes, slots: int) -> npt.NDArray[np.int64]:
    """int64 [n]: which of `slots` (below 2^32) equal ranges of all hashes each falls in; monotone in the hash."""
    return ((lines >> np.uint64(32)) * np.uint64(slots) >> np.uint64(32)).astype(np.int64)


def count_lines(stage: LinesStage, shard: Path, output: Path, run_rows: int = RUN_ROWS) -> dict[str, Any]:
    """Write the lines of the documents of `shard` into the table `output`; returns the manifest.

    The table is a sequence of runs of some `run_rows` records, each sorted by partition; `runs` in the manifest counts
    the records of each partition in each run.

    Raises:
        InputError: the shard is missing or damaged.
    """
    manifest = read_manifest(shard)
    runs: list[list[int]] = []
    held: list[pa.RecordBatch] = []
    with (
        TableWriter.open(output, LINES_SCHEMA) as writer,
        Progress(f"lines {shard.parent.name}/{shard.stem}", manifest["rows"]) as bar,
    ):
        for batch in iterate_batches(shard, ["language", "text"]):
            held.append(_lines(stage, batch))
            if sum(one.num_rows for one in held) >= run_rows:
                runs.append(_write_run(writer, held, stage.partitions))
                held = []
            bar.advance(batch.num_rows)
        if held:
            runs.append(_write_run(writer, held, stage.partitions))
    return writer.manifest(
        kind="lines",
        inputs={"documents": manifest["file"]["digest"]},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={"runs": runs},
    )


def _lines(stage: LinesStage, batch: pa.RecordBatch) -> pa.RecordBatch:
    data, offsets = text_buffers(batch["text"])
    untouched = flags_of(batch["language"], stage.untouched)
    columns = _text.line_hashes(data, offsets, language_salts(batch["language"]), untouched, stage.min_characters)
    return pa.record_batch([pa.array(column) for column in columns], schema=LINES_SCHEMA)


def _write_run(writer: TableWriter, held: list[pa.RecordBatch], partitions: int) -> list[int]:
    """Write records by partition, each from a row group of its own on; returns how many each partition has."""
    table = pa.Table.from_batches(held, schema=LINES_SCHEMA)
    slots = slots_of(table["line"].to_numpy(), partitions)
    # A small integer type, so that the sort is by radix.
    ordered = table.take(pa.array(np.argsort(slots.astype(np.uint16), kind="stable")))
    counts: list[int] = np.bincount(slots, minlength=partitions).tolist()
    start = 0
    for count in counts:
        writer.write(ordered.slice(start, count))
        writer.end_group()
        start += count
    return counts
