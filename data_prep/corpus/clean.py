"""Clean: write the documents that judge and dedup kept, with personal data replaced. Later stages read this corpus.

A second table lists every removed document with its reasons and, for a duplicate, the id of the kept document. Each
document of the input is in exactly one of the two tables.
"""

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
from data_prep.corpus.numbered_documents import renamed_rows
from data_prep.corpus.pii import redact
from data_prep.corpus.removal_reason import Duplicates, RemovalReasons
from data_prep.formats.shard import DOCUMENT_SCHEMA, TableWriter, iterate_batches, read_manifest, read_table

REMOVED_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("rule", pa.string()),
        ("rules", pa.list_(pa.string())),
        ("duplicate_of", pa.string()),
        ("text", pa.large_string()),
    ]
)
"""Columns of the table of removed documents. `rule` is the rule that removed the document. `rules` lists every rule of
judge that the document fails, or `rule` alone if it fails none. `duplicate_of` is the id of the kept document if the
removed document is a duplicate, else null. `text` is null unless `corpus.keep_removed_text` is true."""


def part_of(shard: Path) -> str:
    """Return the part of a shard: `.../raw/sample/00000.parquet` gives `sample/00000`."""
    return f"{shard.parent.name}/{shard.stem}"


def clean(
    stage: CleanStage,
    raw: Path,
    verdicts: Path,
    duplicates: Duplicates,
    output: Path,
    removed: Path,
    contaminated: Path | None = None,
) -> dict[str, Any]:
    """Write the clean shard of `raw` and the table of the documents removed from it.

    `contaminated` is the shard's table of matches with evaluation texts, or None if the run has no evaluation texts.
    Return the manifest of the clean shard. It counts, per language, the documents read, kept, removed and redacted.

    Raises:
        InputError: an input is missing, damaged or from an earlier version, or the number of verdicts differs from
            the number of documents.
    """
    manifests = {name: read_manifest(path) for name, path in (("raw", raw), ("verdicts", verdicts))}
    count = manifests["raw"]["rows"]
    if count != manifests["verdicts"]["rows"]:
        raise InputError(
            f"has {manifests['verdicts']['rows']} verdicts, but the shard has {count} documents",
            where=str(verdicts),
            expected="one verdict per document; delete this file and run the workflow again",
        )
    part = part_of(raw)
    why = RemovalReasons.of(read_table(verdicts, ["rule", "rules"]), duplicates, part, contaminated)
    renamed = renamed_rows(duplicates.repeated, part)
    tally = _Tally()
    start = 0
    with (
        Progress(f"clean {part}", count) as bar,
        TableWriter.open(removed, REMOVED_SCHEMA) as gone,
        TableWriter.open(output, DOCUMENT_SCHEMA) as kept,
    ):
        for batch in iterate_batches(raw):
            batch = _with_final_ids(batch, renamed, start)
            reasons = why.rule[start : start + batch.num_rows]
            sizes = np.asarray(pc.binary_length(batch["text"]), dtype=np.int64)
            languages = np.asarray(batch["language"].to_pylist(), dtype=object)
            tally.count(languages, sizes, reasons)
            rows = np.flatnonzero(reasons == "")
            kept.write(_redacted(batch.take(pa.array(rows)), stage, tally))
            gone.write(_removed(batch, why, start, stage))
            start += batch.num_rows
            bar.advance(batch.num_rows)
    inputs = {name: manifest["file"]["digest"] for name, manifest in manifests.items()}
    facts: dict[str, Any] = {
        "inputs": inputs
        | {path.stem: read_manifest(path)["file"]["digest"] for path in (*duplicates.resolved, *duplicates.repeated)}
        | ({"contaminated": read_manifest(contaminated)["file"]["digest"]} if contaminated is not None else {}),
        "parameters": digest_json(stage.model_dump(mode="json")),
    }
    gone.manifest(kind="removed", counts={"rules": tally.removed()}, **facts)
    return kept.manifest(kind="documents", counts=tally.counts(), **facts)


def _with_final_ids(batch: pa.RecordBatch, renamed: dict[int, str], start: int) -> pa.RecordBatch:
    """Return the batch, which begins at row `start`, with new ids for second and later documents of the same id."""
    rows = [row for row in range(start, start + batch.num_rows) if row in renamed] if renamed else []
    if not rows:
        return batch
    ids = batch["id"].to_pylist()
    for row in rows:
        ids[row - start] = renamed[row]
    return batch.set_column(batch.schema.get_field_index("id"), "id", pa.array(ids, pa.string()))


def _removed(batch: pa.RecordBatch, why: RemovalReasons, start: int, stage: CleanStage) -> pa.RecordBatch:
    """Return the removed rows of a batch as `REMOVED_SCHEMA`. The batch begins at document `start` of the part."""
    rows = np.flatnonzero(why.rule[start : start + batch.num_rows] != "")
    places = rows + start
    rules = [
        failing or [rule]
        for failing, rule in zip(why.rules.take(pa.array(places)).to_pylist(), why.rule[places], strict=True)
    ]
    went = batch.take(pa.array(rows))
    texts: list[str | None] = [None] * len(rows)
    if stage.keep_removed_text:
        texts = [redact(text, stage.pii.kinds)[0] for text in went["text"].to_pylist()]
    columns = [went[name] for name in ("id", "source", "language")]
    columns += [pa.array(why.rule[places], pa.string()), pa.array(rules, pa.list_(pa.string()))]
    columns += [pa.array(why.duplicate_of[places], pa.string()), pa.array(texts, pa.large_string())]
    return pa.record_batch(columns, schema=REMOVED_SCHEMA)


def _redacted(batch: pa.RecordBatch, stage: CleanStage, tally: _Tally) -> pa.RecordBatch:
    texts = batch["text"].to_pylist()
    changed = False
    for number, language in enumerate(batch["language"].to_pylist()):
        before = texts[number]
        texts[number], redactions = redact(before, stage.pii.kinds, language)
        tally.keep(language, len(texts[number].encode("utf-8")) if redactions else 0, before, redactions)
        changed = changed or bool(redactions)
    if not changed:
        return batch
    return batch.set_column(batch.schema.get_field_index("text"), "text", pa.array(texts, pa.large_string()))


class _Tally:
    """Counts, per language, documents and bytes in and out, removals per rule, and redactions per kind."""

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
        """Count the documents of a batch, and how many of them are kept or removed by each rule."""
        for language in np.unique(languages.astype(str)).tolist():
            mine = languages == language
            entry = self._of(language)
            entry["in"].update(documents=int(mine.sum()), bytes=int(sizes[mine].sum()))
            for rule in np.unique(reasons[mine].astype(str)).tolist():
                chosen = mine & (reasons == rule)
                target = entry["removed"].setdefault(rule, Counter()) if rule else entry["out"]
                target.update(documents=int(chosen.sum()), bytes=int(sizes[chosen].sum()))

    def keep(self, language: str, new_bytes: int, before: str, redactions: Counter[str]) -> None:
        """Count the redactions of a kept document and the change in its size."""
        if redactions:
            entry = self._of(language)
            entry["redacted"].update(redactions)
            entry["redacted_documents"] += 1
            entry["out"].update(bytes=new_bytes - len(before.encode("utf-8")))

    def removed(self) -> dict[str, int]:
        """Return the number of documents removed by each rule, over all languages."""
        rules: Counter[str] = Counter()
        for entry in self._languages.values():
            rules.update({rule: size["documents"] for rule, size in entry["removed"].items()})
        return dict(sorted(rules.items()))

    def counts(self) -> dict[str, Any]:
        """Return the counts for the manifest."""
        languages = {language: _plain(entry) for language, entry in sorted(self._languages.items())}
        totals = {
            side: {unit: sum(entry[side][unit] for entry in languages.values()) for unit in ("documents", "bytes")}
            for side in ("in", "out")
        }
        return totals | {"languages": languages}


def _plain(value: Any) -> Any:
    """Return the value with every counter in it, nested ones included, as a dictionary with sorted keys."""
    return {name: _plain(item) for name, item in sorted(value.items())} if isinstance(value, dict) else value
