"""Members: collect the data that `resolve` needs from one shard's documents, so that `resolve` reads no texts."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.atomic import explained
from bloomery.base.digest import digest_json
from bloomery.base.progress import Progress
from bloomery.config.stages import DedupStage
from bloomery.contracts.part_names import own_part
from data_prep.corpus import _text
from data_prep.corpus.columns import flags_of, text_buffers
from data_prep.corpus.dedup.connect import partition_of
from data_prep.corpus.dedup.prefer import source_rank_of, source_ranks
from data_prep.corpus.numbered_documents import CorpusTables, read_part
from data_prep.formats.shard import TableWriter, read_manifest, read_rows

SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("root", pa.int64()),
        ("id", pa.string()),
        ("language", pa.string()),
        ("source_rank", pa.int64()),
        ("words", pa.int64()),
        ("shingles", pa.large_binary()),
    ]
)
"""One row per document of a component. `shingles` are sorted hashes of 8 bytes each, or empty if the document is
compared with no other document."""

_BATCH_ROWS = 1024


def gather_members(stage: DedupStage, tables: CorpusTables, part: str, involved: Path, output: Path) -> dict[str, Any]:
    """Write the members of a part, sorted by the partition of their component; return the manifest.

    In the manifest, `spans` has the first row and the end (excluded) of each partition, and `shingle_bytes` has the
    size of the shingles of each partition, in bytes.

    Raises:
        InputError: a table of the part is missing or damaged.
    """
    mine = read_part(involved, part)
    rows, roots = mine["row"].to_numpy(), mine["root"].to_numpy()
    partition = partition_of(roots, stage.dedup.partitions)
    order = np.argsort(partition, kind="stable")
    wanted = np.asarray(mine["shingles"].to_numpy()).astype(np.bool_) & stage.dedup.near.verify
    facts = _facts(stage, tables, part, rows)
    folder = output.parent
    folder.mkdir(parents=True, exist_ok=True)
    with explained(folder), tempfile.TemporaryFile(dir=folder) as file:
        bounds = np.zeros(len(rows) + 1, np.int64)
        bounds[1:][wanted] = _spool(stage, tables, part, rows[wanted], file)
        bounds = np.cumsum(bounds)
        with TableWriter.open(output, SCHEMA) as writer:
            for start in range(0, len(rows), _BATCH_ROWS):
                chosen = order[start : start + _BATCH_ROWS]
                columns: dict[str, Any] = {name: column.take(pa.array(chosen)) for name, column in facts.items()}
                columns |= {"row": rows[chosen], "root": roots[chosen]}
                columns["shingles"] = pa.array(_blobs(file, bounds, chosen), pa.large_binary())
                writer.write(pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA))
    ends = np.searchsorted(partition[order], np.arange(stage.dedup.partitions + 1)).tolist()
    sizes = np.diff(bounds).astype(np.float64)
    inputs = {"measures": tables.path("measures", part), "text": tables.text_path(part), "involved": involved}
    return writer.manifest(
        kind="members",
        inputs={name: read_manifest(path)["file"]["digest"] for name, path in inputs.items()},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={
            "spans": [list(pair) for pair in itertools.pairwise(ends)],
            "shingle_bytes": np.bincount(partition, sizes, stage.dedup.partitions).astype(np.int64).tolist(),
        },
    )


def _facts(stage: DedupStage, tables: CorpusTables, part: str, rows: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the columns `id, language, source_rank, words` of the rows."""
    names = ["source", "language", "words"]
    found = [pa.Table.from_batches([batch]) for batch in read_rows(tables.path("measures", part), rows, names)]
    if not found:
        return {name: pa.array([], SCHEMA.field(name).type) for name in ("id", "language", "source_rank", "words")}
    table = pa.concat_tables(found)
    source_rank = source_rank_of(table["source"], source_ranks(stage.priorities), earlier=not own_part(part))
    return {
        "id": tables.final_ids(part).take(pa.array(rows)),
        "language": table["language"].combine_chunks(),
        "source_rank": pa.array(source_rank),
        "words": table["words"].combine_chunks(),
    }


def _spool(
    stage: DedupStage, tables: CorpusTables, part: str, rows: npt.NDArray[np.int64], file: Any
) -> npt.NDArray[np.int64]:
    """Write the shingles of the sorted `rows` to `file`, document by document. Return the bytes per document."""
    near = stage.dedup.near
    sizes: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
    with Progress(f"shingles of {part}", len(rows)) as bar:
        for batch in _small(read_rows(tables.text_path(part), rows, ["text", "language"])):
            data, offsets = text_buffers(batch["text"])
            unspaced = flags_of(batch["language"], stage.unspaced)
            values, cuts = _text.shingles(data, offsets, unspaced, near.word_ngram, near.character_ngram)
            file.write(values.tobytes())
            sizes.append(np.diff(cuts) * values.itemsize)
            bar.advance(batch.num_rows)
    return np.concatenate(sizes)


def _small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield small slices of the batches, because shingles are several times the size of their text."""
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS)


def _blobs(file: Any, bounds: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64]) -> list[bytes]:
    blobs = []
    for place in chosen.tolist():
        file.seek(bounds[place])
        blobs.append(file.read(bounds[place + 1] - bounds[place]))
    return blobs
