"""Write the lines of one shard's documents as hashes, partitioned by hash. Equal lines are in the same partition.

A record has the hash of a line and the content hash of its document, so that copies of a document count once.
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
"""One row per different line of a document. `line` is a hash of the language and the line. `content` is a hash of the
document's content."""

RUN_ROWS = 1 << 22
"""Number of records that are sorted by partition at a time. The sort takes about 60 bytes per record."""

Hashes = npt.NDArray[np.uint64]


def slots_of(lines: Hashes, slots: int) -> npt.NDArray[np.int64]:
    """Return int64 [n]: the index of the range that contains each hash.

    All possible hashes are divided into `slots` equal ranges. `slots` is below 2^32. A larger hash never gets
    a smaller index.
    """
    return ((lines >> np.uint64(32)) * np.uint64(slots) >> np.uint64(32)).astype(np.int64)


def count_lines(stage: LinesStage, shard: Path, output: Path, run_rows: int = RUN_ROWS) -> dict[str, Any]:
    """Write the lines of the documents of `shard` to the table `output` and return its manifest.

    The table is a sequence of sorted runs of about `run_rows` records. The records of a run are sorted by partition.
    `runs` in the manifest has the number of records of each partition in each run.

    Raises:
        InputError: the shard is missing or damaged.
    """
    manifest = read_manifest(shard)
    runs: list[list[int]] = []
    held: list[pa.RecordBatch] = []
    with (
        TableWriter.open(output, LINES_SCHEMA) as writer,
        Progress(f"hash lines of {shard.parent.name}/{shard.stem}", manifest["rows"]) as bar,
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
    """Write records sorted by partition and return the number of records of each partition.

    Each partition begins a new row group.
    """
    table = pa.Table.from_batches(held, schema=LINES_SCHEMA)
    slots = slots_of(table["line"].to_numpy(), partitions)
    # NumPy uses a radix sort for this small integer type.
    ordered = table.take(pa.array(np.argsort(slots.astype(np.uint16), kind="stable")))
    counts: list[int] = np.bincount(slots, minlength=partitions).tolist()
    start = 0
    for count in counts:
        writer.write(ordered.slice(start, count))
        writer.end_group()
        start += count
    return counts
