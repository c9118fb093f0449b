"""Clean: the documents that judge and dedup kept, with personal data replaced. The corpus that everything reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress
from bloomery.config.stages import CleanStage
from bloomery.contracts.shard import (
    DOCUMENT_SCHEMA,
    ROW_GROUP_ROWS,
    iterate_batches,
    open_table,
    read_manifest,
    read_table,
    write_table,
)
from data_prep.corpus.pii import redact

DUPLICATE_KINDS = {"exact": "exact_duplicate", "near": "near_duplicate"}
"""Kind of a duplicate -> its name among the rules that removed a document."""


def read_duplicates(duplicates: Path, part: str) -> pa.Table:
    """The rows of one part, sorted by id; only their row groups are read."""
    manifest = read_manifest(duplicates)
    start, end = manifest["counts"]["spans"].get(part, (0, 0))
    with open_table(duplicates) as file:
        if start == end:
            return file.schema_arrow.empty_table()
        first, last = start // ROW_GROUP_ROWS, (end - 1) // ROW_GROUP_ROWS
        table = file.read_row_groups(list(range(first, last + 1)))
        return table.slice(start - first * ROW_GROUP_ROWS, end - start)


def part_of(shard: Path) -> str:
    """`.../raw/sample/00000.parquet` -> `sample/00000`."""
    return f"{shard.parent.name}/{shard.stem}"


def clean(stage: CleanStage, raw: Path, verdicts: Path, duplicates: Path, output: Path) -> dict[str, Any]:
    """Write the clean shard of `raw`; returns the manifest, which counts per language what came, went and was redacted.

    Raises:
        InputError: an input is missing, damaged, or not of these documents.
    """
    manifests = {name: read_manifest(path) for name, path in (("raw", raw), ("verdicts", verdicts))}
    if manifests["raw"]["rows"] != manifests["verdicts"]["rows"]:
        raise InputError(
            f"{manifests['verdicts']['rows']} verdicts for {manifests['raw']['rows']} documents", where=str(verdicts)
        )
    why = _reasons(read_table(verdicts, ["id", "rule"]), read_duplicates(duplicates, part_of(raw)))
    tally = _Tally()
    batches: list[pa.RecordBatch] = []
    start = 0
    with Progress(f"clean {part_of(raw)}", len(why)) as bar:
        for batch in iterate_batches(raw):
            reasons = why[start : start + batch.num_rows]
            sizes = np.asarray(pc.binary_length(batch["text"]), dtype=np.int64)
            languages = np.asarray(batch["language"].to_pylist(), dtype=object)
            tally.count(languages, sizes, reasons)
            rows = np.flatnonzero(reasons == "")
            batches.append(_redacted(batch.take(pa.array(rows)), stage, tally))
            start += batch.num_rows
            bar.advance(batch.num_rows)
    table = pa.Table.from_batches(batches, schema=DOCUMENT_SCHEMA)
    inputs = {name: manifest["file"]["digest"] for name, manifest in manifests.items()}
    return write_table(
        output,
        table,
        kind="documents",
        inputs=inputs | {"duplicates": read_manifest(duplicates)["file"]["digest"]},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts=tally.counts(),
    )


def _reasons(verdicts: pa.Table, duplicates: pa.Table) -> npt.NDArray[np.object_]:
    """object [documents]: the rule that removed each document, or an empty string."""
    reasons = np.asarray(verdicts["rule"].to_pylist(), dtype=object)
    place = np.asarray(pc.index_in(verdicts["id"], value_set=duplicates["id"].combine_chunks()).fill_null(-1))
    kinds = np.array([DUPLICATE_KINDS[kind] for kind in duplicates["kind"].to_pylist()] + [""], dtype=object)
    return np.where((place >= 0) & (reasons == ""), kinds[place], reasons)


def _redacted(batch: pa.RecordBatch, stage: CleanStage, tally: _Tally) -> pa.RecordBatch:
    texts = batch["text"].to_pylist()
    changed = False
    for number, language in enumerate(batch["language"].to_pylist()):
        before = texts[number]
        texts[number], redactions = redact(before, stage.pii.kinds)
        tally.keep(language, len(texts[number].encode("utf-8")) if redactions else 0, before, redactions)
        changed = changed or bool(redactions)
    if not changed:
        return batch
    return batch.set_column(batch.schema.get_field_index("text"), "text", pa.array(texts, pa.large_string()))


class _Tally:
    """Per language: documents and bytes in and out, removals per rule, redactions per kind."""

    def __init__(self) -> None:
        self._languages: dict[str, dict[str, Any]] = {}

    def _of(self, language: str) -> dict[str, Any]:
        return self._languages.setdefault(
            language,
            {
                "in": Counter({"documents": 0, "bytes": 0}),
                "out": Counter({"documents": 0, "bytes": 0}),
                "removed": {},
                "redacted": Counter(),
                "redacted_documents": 0,
            },
        )

    def count(
        self, languages: npt.NDArray[np.object_], sizes: npt.NDArray[np.int64], reasons: npt.NDArray[np.object_]
    ) -> None:
        """Count documents in, and the removed ones by rule."""
        for language in np.unique(languages.astype(str)).tolist():
            mine = languages == language
            entry = self._of(language)
            entry["in"].update(documents=int(mine.sum()), bytes=int(sizes[mine].sum()))
            for rule in np.unique(reasons[mine].astype(str)).tolist():
                chosen = mine & (reasons == rule)
                target = entry["removed"].setdefault(rule, Counter()) if rule else entry["out"]
                target.update(documents=int(chosen.sum()), bytes=int(sizes[chosen].sum()))

    def keep(self, language: str, new_bytes: int, before: str, redactions: Counter[str]) -> None:
        """Count the redactions of a kept document and what they do to its size."""
        if redactions:
            entry = self._of(language)
            entry["redacted"].update(redactions)
            entry["redacted_documents"] += 1
            entry["out"].update(bytes=new_bytes - len(before.encode("utf-8")))

    def counts(self) -> dict[str, Any]:
        """For the manifest."""
        languages = {language: _plain(entry) for language, entry in sorted(self._languages.items())}
        totals = {
            side: {unit: sum(entry[side][unit] for entry in languages.values()) for unit in ("documents", "bytes")}
            for side in ("in", "out")
        }
        return totals | {"languages": languages}


def _plain(value: Any) -> Any:
    """Counters as sorted dictionaries."""
    return {name: _plain(item) for name, item in sorted(value.items())} if isinstance(value, dict) else value
