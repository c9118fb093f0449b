"""Decontaminate: which documents of a shard share an n-gram with a text that a model will be evaluated on.

The evaluation texts become one sorted array of 64-bit hashes of their n-grams (13 words of any spaced script, 50
characters where words are not spaced: the shingles of near duplicates), and each document's n-grams are looked up in
it. A text shorter than an n-gram only matches a document that is the same text. Memory: 16 bytes an n-gram of the
evaluation texts and a batch of documents, whatever the corpus.
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
from bloomery.config.stages import DecontaminateStage
from data_prep.corpus import _text
from data_prep.corpus.columns import flags_of, text_buffers
from data_prep.corpus.rows import BadRow
from data_prep.corpus.sources.read_lines import read_lines
from data_prep.formats.shard import iterate_batches, read_manifest, write_table

SCHEMA = pa.schema([("row", pa.int64()), ("item", pa.string()), ("hits", pa.int64()), ("share", pa.float64())])
"""One row a document with enough hits, by its `row` in the shard: the item that it shares most n-grams with (the first
on ties), how many n-grams of the document are in any item, and their share of the document's."""

_LINE_BYTES = 64 << 20


@dataclass(frozen=True)
class EvaluationIndex:
    """N-grams of the evaluation texts."""

    hashes: npt.NDArray[np.uint64]
    """uint64 [n], sorted, different."""
    items: npt.NDArray[np.int64]
    """int64 [n]: number of the first item that holds each."""
    names: list[str]
    """Name of each item: `file:line`, or its id."""


def build_index(stage: DecontaminateStage, files: list[Path]) -> EvaluationIndex:
    """Index the evaluation texts of `files`.

    Raises:
        InputError: a file cannot be read, a row lacks the fields, or there is not a single n-gram: a decontamination
            that checks nothing must not look like one that found nothing.
    """
    names: list[str] = []
    hashes: list[npt.NDArray[np.uint64]] = []
    items: list[npt.NDArray[np.int64]] = []
    for path in files:
        for name, text in _items(path, stage):
            # A text without a word has a shingle of its own, which is no n-gram.
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
            "the evaluation texts hold no n-gram, so nothing would be checked",
            where=", ".join(map(str, files)) or "corpus.decontaminate.paths",
            expected=f"texts in the fields {', '.join(stage.text_fields)}",
        )
    unique, first = np.unique(every, return_index=True)
    return EvaluationIndex(unique, np.concatenate(items)[first], names)


def _items(path: Path, stage: DecontaminateStage) -> Iterator[tuple[str, str]]:
    """(name, text) of each evaluation item; its fields are joined by newlines."""
    rows = _parquet_rows(path) if path.suffix.lower() == ".parquet" else _json_rows(path)
    for number, row in rows:
        texts = [row[field] for field in stage.text_fields if isinstance(row.get(field), str)]
        if not texts:
            raise InputError(
                f"no text in any of the fields {', '.join(stage.text_fields)}",
                where=f"{path}:{number}",
                expected=f"corpus.decontaminate.text_fields among {', '.join(map(str, row))}",
            )
        identity = row.get(stage.id_field) if stage.id_field else None
        yield (str(identity) if identity is not None else f"{path.name}:{number}"), "\n".join(texts)


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for line in read_lines(str(path), _LINE_BYTES):
        if isinstance(line, BadRow):
            raise InputError(f"{line.reason} {line.detail}".rstrip(), where=f"{path}:{line.line or 1}")
        number, data = line
        if not data.strip():
            continue
        try:
            row = json.loads(data)
        except ValueError as error:
            raise InputError(f"not JSON: {error}", where=f"{path}:{number}") from error
        if not isinstance(row, dict):
            raise InputError("not a JSON object", where=f"{path}:{number}")
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
        raise InputError(f"cannot be read as Parquet ({error})", where=str(path)) from error


def find_hits(index: EvaluationIndex, batch: pa.RecordBatch, stage: DecontaminateStage, start: int) -> pa.RecordBatch:
    """Rows of `SCHEMA` for the documents that share at least `stage.min_hits` n-grams.

    `batch` has the columns language and text; it begins at row `start` of the shard.
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
    """Look for the n-grams of the evaluation `files` in the raw `shard`; writes `output`, returns its manifest.

    Raises:
        InputError: as `build_index`, or the shard is missing or damaged.
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
