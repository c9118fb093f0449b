"""Measure: compute every statistic of a document once, so that new thresholds need no text.

The table has one row per document, in the shard's order. A row has the measures of the compiled kernel, the detected
languages, the content hash, and the MinHash band keys that find near duplicates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.digest import digest_json
from bloomery.base.progress import Progress
from bloomery.config.corpus import NearDedupConfig
from bloomery.config.stages import MeasureStage
from data_prep.corpus import _text
from data_prep.corpus.code import code_measures
from data_prep.corpus.columns import flags_of, text_buffers
from data_prep.corpus.content_hash import content_hashes
from data_prep.corpus.langid import Detection, identifier
from data_prep.corpus.language_words import LanguageWords
from data_prep.formats.shard import DOCUMENT_SCHEMA, TableWriter, iterate_batches, read_manifest

_U64 = (1 << 64) - 1


def key_digest(near: NearDedupConfig, seed: int, unspaced: list[str]) -> str:
    """Return a digest of all parameters of near-duplicate keys. Only keys with equal digests can be compared."""
    parameters = near.model_dump(mode="json", include={"word_ngram", "character_ngram", "bands", "rows"})
    return digest_json([parameters, seed, unspaced])


def measure_batch(batch: pa.RecordBatch, stage: MeasureStage, language_words: LanguageWords) -> pa.RecordBatch:
    """Return the measures of a batch of a shard's rows, one row per document. The batch size does not change them.

    `language_words` is `LanguageWords(stage)`; the caller creates it once.
    """
    near = stage.near
    data, offsets = text_buffers(batch["text"])
    unspaced = flags_of(batch["language"], stage.unspaced)
    columns: dict[str, Any] = {name: batch[name] for name in ("id", "source", "language")}
    columns |= _text.measure(data, offsets, unspaced, language_words.lists, language_words.numbers(batch["language"]))
    columns |= language_words.scripts(columns["scripts"], batch["language"])
    texts = batch["text"].to_pylist()
    columns |= code_measures(batch, texts, stage.licence_fields)
    columns |= _detections(identifier(stage.detector).detect_all(texts, batch["language"].to_pylist()))
    columns["content_hash"] = content_hashes(data, offsets)
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
    """Measure the documents of `shard`, write the table `output`, and return its manifest.

    Raises:
        InputError: the shard is missing or damaged.
    """
    manifest = read_manifest(shard)
    language_words = LanguageWords(stage)
    schema = measure_batch(pa.RecordBatch.from_pylist([], schema=DOCUMENT_SCHEMA), stage, language_words).schema
    characters = 0
    with (
        Progress(f"measure {shard.parent.name}/{shard.stem}", manifest["rows"]) as bar,
        TableWriter.open(output, schema) as writer,
    ):
        for batch in iterate_batches(shard):
            measured = measure_batch(batch, stage, language_words)
            characters += pc.sum(measured["characters"]).as_py()
            writer.write(measured)
            bar.advance(batch.num_rows)
    return writer.manifest(
        kind="measures",
        inputs={"documents": manifest["file"]["digest"]},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={
            "documents": writer.rows,
            "characters": characters,
            "detectable": sorted(identifier(stage.detector).codes),
            "keys": key_digest(stage.near, stage.seed, stage.unspaced),
        },
    )
