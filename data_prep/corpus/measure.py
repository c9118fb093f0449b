"""Measure: every statistic of a document once, so that thresholds can change later without reading a text again.

One row a document, in the shard's order: the kernel's measures, CLD2's languages, the hash of the content and the
MinHash band keys that find near duplicates.
"""

from __future__ import annotations

import hashlib
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bloomery.base.digest import digest_json
from bloomery.base.progress import Progress
from bloomery.config.stages import MeasureStage
from bloomery.contracts.shard import iterate_batches, read_manifest, write_table
from data_prep.corpus import _text
from data_prep.corpus.columns import flags_of, text_buffers
from data_prep.corpus.langid import Detection, detect

CONTENT_HASH_BYTES = 16
_U64 = (1 << 64) - 1


def content_hash(text: str) -> bytes:
    """BLAKE2b-128 of the text in NFC with every run of white space as one space."""
    return hashlib.blake2b(
        unicodedata.normalize("NFC", " ".join(text.split())).encode("utf-8"), digest_size=CONTENT_HASH_BYTES
    ).digest()


def measure_batch(batch: pa.RecordBatch, stage: MeasureStage) -> pa.RecordBatch:
    """Measures of a batch of documents (columns id, source, language, text), row by row the same for any batching."""
    near = stage.near
    data, offsets = text_buffers(batch["text"])
    unspaced = flags_of(batch["language"], stage.unspaced)
    columns: dict[str, Any] = {name: batch[name] for name in ("id", "source", "language")}
    columns |= _text.measure(data, offsets, unspaced)
    texts = batch["text"].to_pylist()
    columns |= _detections([detect(text) for text in texts])
    columns["content_hash"] = pa.array([content_hash(text) for text in texts], pa.binary(CONTENT_HASH_BYTES))
    keys = _text.minhash(
        data, offsets, unspaced, near.word_ngram, near.character_ngram, near.bands, near.rows, stage.seed & _U64
    )
    columns["bands"] = pa.FixedSizeListArray.from_arrays(pa.array(keys.reshape(-1)), near.bands)
    return pa.record_batch(columns)


def _detections(found: list[Detection]) -> dict[str, pa.Array]:
    return {
        "detected": pa.array([one.codes[0] if one.codes else "un" for one in found], pa.string()),
        "detected_reliable": pa.array([one.reliable for one in found], pa.bool_()),
        "detected_codes": pa.array([one.codes for one in found], pa.list_(pa.string())),
        "detected_shares": pa.array([one.shares for one in found], pa.list_(pa.float64())),
    }


def measure(stage: MeasureStage, shard: Path, output: Path) -> dict[str, Any]:
    """Measure the documents of `shard` into the table `output`; returns the manifest.

    Raises:
        InputError: the shard is missing or damaged.
    """
    manifest = read_manifest(shard)
    batches = []
    with Progress(f"measure {shard.parent.name}/{shard.stem}", manifest["rows"]) as bar:
        for batch in iterate_batches(shard, ["id", "source", "language", "text"]):
            batches.append(measure_batch(batch, stage))
            bar.advance(batch.num_rows)
    table = pa.Table.from_batches(batches) if batches else _empty(stage)
    return write_table(
        output,
        table,
        kind="measures",
        inputs={"documents": manifest["file"]["digest"]},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={"documents": table.num_rows, "characters": int(np.sum(table["characters"].to_numpy()))},
    )


def _empty(stage: MeasureStage) -> pa.Table:
    names = {"id": pa.string(), "source": pa.string(), "language": pa.string(), "text": pa.large_string()}
    none = pa.record_batch([pa.array([], kind) for kind in names.values()], names=list(names))
    return pa.Table.from_batches([measure_batch(none, stage)])
