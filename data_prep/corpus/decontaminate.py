"""Decontaminate: find the documents of a shard that share n-grams with a text that a model will be evaluated on.

The n-grams of the evaluation texts become one sorted array of 64-bit hashes, and the n-grams of each document are
looked up in it. By default an n-gram has 13 words, or 50 characters in scripts that write no spaces between words.
N-grams are computed like the shingles of near duplicates. A text shorter than one n-gram matches only a document with
the same text. A job needs 16 bytes of memory per n-gram of the evaluation texts, and the memory of one batch of
documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bloomery.base.digest import digest_file, digest_json
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress
from bloomery.base.unreadable import parquet_cause
from bloomery.config.stages import DecontaminateStage
from data_prep.corpus import _text
from data_prep.corpus.columns import flags_of, text_buffers
from data_prep.corpus.rows import BadRow
from data_prep.corpus.sources.read_lines import read_lines
from data_prep.formats.shard import iterate_batches, read_manifest, write_table

SCHEMA = pa.schema([("row", pa.int64()), ("item", pa.string()), ("hits", pa.int64()), ("share", pa.float64())])
"""One row per document that shares at least `min_hits` n-grams with the evaluation texts. `row` is the document's row
in the shard. `item` names the evaluation text with the largest number of the shared n-grams (the first on ties). An
n-gram of several evaluation texts counts for the first of them. `hits` is the number of shared n-grams, and `share` is
`hits` divided by the number of the document's n-grams."""

_LINE_BYTES = 64 << 20
_JSON_LINES = "evaluation texts as JSON Lines: one object of at most 64 MiB per line (corpus.decontaminate.paths)"


@dataclass(frozen=True)
class EvaluationIndex:
    """The n-grams of all evaluation texts."""

    hashes: npt.NDArray[np.uint64]
    """uint64 [n]: hashes of the n-grams, sorted, without repetitions."""
    items: npt.NDArray[np.int64]
    """int64 [n]: number of the first evaluation text that contains the n-gram, for each n-gram."""
    names: list[str]
    """Name of each evaluation text: its id, or `file:line` if it has no id."""


def build_index(stage: DecontaminateStage, files: list[Path]) -> EvaluationIndex:
    """Index the evaluation texts of `files`.

    Raises:
        InputError: a file cannot be read, a row has none of the text fields, or the files contain no n-gram. Without
            an n-gram nothing would be checked, and the result would look as if no document matched.
    """
    names: list[str] = []
    hashes: list[npt.NDArray[np.uint64]] = []
    items: list[npt.NDArray[np.int64]] = []
    for path in files:
        for name, text in _items(path, stage):
            # A text without a letter or digit is skipped: its only shingle is a hash of its symbols, not an n-gram.
            # Other texts are indexed by words and by characters, because documents of any language may contain them.
            for unspaced in (0, 1) if any(map(str.isalnum, text)) else ():
                data = text.encode("utf-8", "replace")
                found, _ = _text.shingles(
                    data,
                    np.array([0, len(data)], np.int64),
                    np.array([unspaced], np.uint8),
                    stage.word_ngram,
                    stage.character_ngram,
                )
                hashes.append(found)
                items.append(np.full(len(found), len(names), np.int64))
            names.append(name)
    every = np.concatenate([np.empty(0, np.uint64), *hashes])
    if not len(every):
        raise InputError(
            "the evaluation texts contain no n-gram, so nothing would be checked",
            where=", ".join(map(str, files)) or "corpus.decontaminate.paths",
            expected="evaluation texts with letters or digits in the fields"
            f" {', '.join(stage.text_fields)} (corpus.decontaminate.text_fields)",
        )
    unique, first = np.unique(every, return_index=True)
    return EvaluationIndex(unique, np.concatenate(items)[first], names)


def _items(path: Path, stage: DecontaminateStage) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each evaluation text. The texts of its fields are joined by newlines."""
    rows = _parquet_rows(path) if path.suffix.lower() == ".parquet" else _json_rows(path)
    for number, row in rows:
        texts = [row[field] for field in stage.text_fields if isinstance(row.get(field), str)]
        if not texts:
            raise InputError(
                f"no text in any of the fields {', '.join(stage.text_fields)}",
                where=f"{path}:{number}",
                expected=f"corpus.decontaminate.text_fields with one of this row's fields: {', '.join(map(str, row))}",
            )
        identity = row.get(stage.id_field) if stage.id_field else None
        yield (str(identity) if identity is not None else f"{path.name}:{number}"), "\n".join(texts)


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for line in read_lines(str(path), _LINE_BYTES):
        if isinstance(line, BadRow):
            what = f"{line.reason}: {line.detail}" if line.detail else line.reason
            raise InputError(what, where=f"{path}:{line.line or 1}", expected=_JSON_LINES)
        number, data = line
        if not data.strip():
            continue
        try:
            row = json.loads(data)
        except ValueError as error:
            raise InputError(parquet_cause(error), where=f"{path}:{number}", expected=_JSON_LINES) from error
        if not isinstance(row, dict):
            raise InputError("the line is not a JSON object", where=f"{path}:{number}", expected=_JSON_LINES)
        yield number, row


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"cannot be read ({parquet_cause(error)})",
            where=str(path),
            expected="evaluation texts in an undamaged Parquet file (corpus.decontaminate.paths)",
        ) from error


def find_hits(index: EvaluationIndex, batch: pa.RecordBatch, stage: DecontaminateStage, start: int) -> pa.RecordBatch:
    """Return the rows of `SCHEMA` for documents that share at least `stage.min_hits` n-grams with the index.

    `batch` has the columns language and text, and begins at row `start` of the shard.
    """
    data, offsets = text_buffers(batch["text"])
    flags = flags_of(batch["language"], stage.unspaced)
    values, bounds = _text.shingles(data, offsets, flags, stage.word_ngram, stage.character_ngram)
    place = np.minimum(np.searchsorted(index.hashes, values), len(index.hashes) - 1)
    hit = index.hashes[place] == values
    before = np.concatenate([[0], np.cumsum(hit)])
    counts = before[bounds[1:]] - before[bounds[:-1]]
    rows = np.flatnonzero(counts >= stage.min_hits)
    names, shares = [], []
    for row in rows:
        mine = slice(bounds[row], bounds[row + 1])
        found = index.items[place[mine][hit[mine]]]
        numbers, times = np.unique(found, return_counts=True)
        names.append(index.names[int(numbers[times.argmax()])])
        shares.append(counts[row] / (bounds[row + 1] - bounds[row]))
    columns = [(rows + start).tolist(), names, counts[rows].tolist(), shares]
    return pa.record_batch(columns, schema=SCHEMA)


def decontaminate(stage: DecontaminateStage, shard: Path, files: list[Path], output: Path) -> dict[str, Any]:
    """Find the documents of `shard` that share n-grams with the evaluation `files`.

    Write the table `output` and return its manifest.

    Raises:
        InputError: as for `build_index`, or if the shard is missing or damaged.
    """
    manifest = read_manifest(shard)
    index = build_index(stage, files)
    batches = []
    start = 0
    with Progress(f"decontaminate {shard.parent.name}/{shard.stem}", manifest["rows"]) as bar:
        for batch in iterate_batches(shard, ["language", "text"]):
            batches.append(find_hits(index, batch, stage, start))
            start += batch.num_rows
            bar.advance(batch.num_rows)
    table = pa.Table.from_batches(batches, schema=SCHEMA)
    return write_table(
        output,
        table,
        kind="contaminated",
        inputs={"documents": manifest["file"]["digest"]} | {path.name: digest_file(path) for path in files},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={"documents": table.num_rows, "items": len(index.names), "ngrams": len(index.hashes)},
    )
