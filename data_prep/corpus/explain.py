"""Explain a document by its id: its row in the source, its measures, every verdict, its duplicates and its outcome.

The search reads the id column of every shard, 16 bytes per document. It takes about 2 minutes for 500 M documents.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from bloomery.base.errors import InputError
from bloomery.base.units import format_bytes
from bloomery.config.corpus import Thresholds
from bloomery.config.stages import JudgeStage, read_stage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import read_part_names
from data_prep.corpus.dedup.read_resolved import open_resolved, read_resolved
from data_prep.corpus.lines.strip_lines import removed_lines
from data_prep.corpus.numbered_documents import CorpusTables, renamed_rows
from data_prep.corpus.pii import PLACEHOLDERS, redact
from data_prep.corpus.removal_reason import CONTAMINATED
from data_prep.formats.shard import manifest_path, open_table, read_table

EXCERPT_CHARACTERS = 300
NOT_YET = "not yet"


def explain(run: RunPaths, document: str) -> list[dict[str, Any]]:
    """Return everything that the run recorded about a document.

    The list has one entry. Before the duplicate search gives repeated ids new values, several documents may have the
    id; then the list has one entry for each of them.

    Raises:
        InputError: the run or the document does not exist, or a table is from an earlier version.
    """
    parts_file = run.config / "parts.json"
    parts = read_part_names(parts_file) if parts_file.exists() else []
    if not parts:
        raise InputError(
            "there is no corpus in this folder",
            where=str(run.run),
            expected="the folder of a run whose workflow was started, such as runs/sample",
        )
    tables = CorpusTables(run.corpus)
    found = [_explain(run, part, row, document) for part in parts for row in _rows(tables, part, document)]
    if not found:
        raise InputError(
            f"there is no document {document!r}",
            where=str(run.corpus / "raw"),
            expected="an id of 32 hexadecimal digits, as in corpus/raw, corpus/removed or report/corpus.html",
        )
    return found


def _rows(tables: CorpusTables, part: str, document: str) -> list[int]:
    """Return the row numbers of a document in a shard; an empty list if the shard does not exist yet."""
    shard = tables.path("raw", part)
    if not manifest_path(shard).exists():
        return []
    renamed = renamed_rows(tables.partitioned("repeated", part), part)
    found = [row for row, identity in renamed.items() if identity == document]
    start = 0
    with open_table(shard) as file:
        for group in range(file.num_row_groups):
            ids = file.read_row_group(group, columns=["id"])["id"]
            hits = np.flatnonzero(np.asarray(pc.equal(ids, document)))
            found += [row for row in (start + hits).tolist() if row not in renamed]
            start += len(ids)
    return sorted(found)


def _row(table: Path, row: int) -> dict[str, Any] | None:
    """Return one row of a table, or None if the table does not exist yet."""
    if not manifest_path(table).exists():
        return None
    with open_table(table) as file:
        start = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if row < start + size:
                found: dict[str, Any] = file.read_row_group(group).slice(row - start, 1).to_pylist()[0]
                return found
            start += size
    raise InputError(
        f"the table has {start} rows, so row {row} of the raw shard is missing (the first row is 0)",
        where=str(table),
        expected="one row per document of the raw shard; delete this file and run the workflow again",
    )


def _explain(run: RunPaths, part: str, row: int, document: str) -> dict[str, Any]:
    def table(kind: str) -> Path:
        return run.corpus / kind / f"{part}.parquet"

    raw = _row(table("raw"), row)
    assert raw is not None  # `_rows` has just found the id in this shard
    measured, verdict = _row(table("measures"), row), _row(table("verdicts"), row)
    start, kinds = redact(raw["text"][: 4 * EXCERPT_CHARACTERS], PLACEHOLDERS, raw["language"])
    text = _measured_text(run, part, row, raw) if measured else raw["text"]
    duplicate, removed_duplicates = _duplicates(run, part, row, document)
    contaminated = _hits(table("contaminated"), row)
    cleaned = _clean_text(table("clean"), document)
    return {
        "id": document,
        "source": raw["source"],
        "part": part,
        "row": row,
        "meta": json.loads(raw["meta"]) if raw["meta"] else {},
        "language": raw["language"],
        "bytes": len(raw["text"].encode("utf-8")),
        "excerpt": " ".join(start.split())[:EXCERPT_CHARACTERS],
        "personal_data_at_its_start": dict(kinds),
        "repeated_lines": [redact(line, PLACEHOLDERS, raw["language"])[0] for line in removed_lines(raw["text"], text)],
        "measures": _measures(run, raw["source"], raw["language"], measured),
        "detected": dict(zip(measured["detected_codes"], measured["detected_shares"], strict=True))
        if measured
        else None,
        "rule": verdict["rule"] if verdict else None,
        "rules": verdict["rules"] if verdict else None,
        "contaminated": contaminated,
        "duplicate": duplicate,
        "removed_duplicates": removed_duplicates,
        "outcome": _outcome(run, part, verdict, contaminated, duplicate, cleaned=cleaned is not None),
        "redacted": cleaned != text if cleaned is not None else None,
    }


def _measured_text(run: RunPaths, part: str, row: int, raw: dict[str, Any]) -> str:
    """Return the text that was measured: without repeated lines if the run removes them."""
    path = CorpusTables(run.corpus).text_path(part)
    found = raw if path == run.corpus / "raw" / f"{part}.parquet" else _row(path, row)
    assert found is not None  # `text_path` has just read the manifest
    text: str = found["text"]
    return text


def _outcome(
    run: RunPaths,
    part: str,
    verdict: dict[str, Any] | None,
    contaminated: dict[str, Any] | None,
    duplicate: dict[str, Any] | None,
    *,
    cleaned: bool,
) -> str:
    """Return `kept`, `removed: <rule>`, or `not yet` if the run has not decided."""
    if verdict is None:
        return NOT_YET
    if verdict["rule"]:
        return f"removed: {verdict['rule']}"
    if contaminated:
        return f"removed: {CONTAMINATED}"
    if duplicate:
        return f"removed: {duplicate['kind']}_duplicate"
    if not manifest_path(run.corpus / "clean" / f"{part}.parquet").exists():
        return NOT_YET
    return "kept" if cleaned else NOT_YET


def _hits(table: Path, row: int) -> dict[str, Any] | None:
    """Return the document's row in the table of matches with evaluation texts, or None if the table has no such row."""
    if not manifest_path(table).exists():
        return None
    found = read_table(table).filter(pc.field("row") == row).to_pylist()
    return found[0] if found else None


def _clean_text(table: Path, document: str) -> str | None:
    """Return the document's text in the clean corpus, or None if the clean corpus does not have the document."""
    if not manifest_path(table).exists():
        return None
    with open_table(table) as file:
        for group in range(file.num_row_groups):
            place = pc.index(file.read_row_group(group, columns=["id"])["id"], document).as_py()
            if place >= 0:
                text: str = file.read_row_group(group, columns=["text"])["text"][place].as_py()
                return text
    return None


def _duplicates(run: RunPaths, part: str, row: int, document: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the document's row in the tables of removed duplicates, and the ids of its own removed duplicates.

    The row is None if the document is not in these tables.
    """
    own: dict[str, Any] | None = None
    removed: list[str] = []
    for path in CorpusTables(run.corpus).partitioned("resolved", part):
        for found in read_resolved(path, part).to_pylist():
            own = found if found["row"] == row else own
        with open_resolved(path) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, columns=["id", "duplicate_of", "duplicate_of_part"])
                mine = (pc.field("duplicate_of") == document) & (pc.field("duplicate_of_part") == part)
                removed += rows.filter(mine)["id"].to_pylist()
    return own, sorted(removed)


def _measures(
    run: RunPaths, source: str, language: str, measured: dict[str, Any] | None
) -> dict[str, dict[str, Any]] | None:
    """Return each measure with its limits and whether it is within them; None if the document is not measured yet."""
    if measured is None:
        return None
    limits: dict[str, float] = {}
    if (run.config / "judge.json").exists():
        stage = read_stage(run.config / "judge.json", JudgeStage)
        limits = stage.limits(source, language).model_dump(exclude_none=True)
    names = dict.fromkeys(rule[4:] for rule in Thresholds.model_fields)
    found = {}
    for name in names:
        least, greatest, value = limits.get(f"min_{name}"), limits.get(f"max_{name}"), measured[name]
        holds = (least is None or value >= least) and (greatest is None or value <= greatest)
        found[name] = {"value": value, "min": least, "max": greatest, "holds": holds}
    return found


def lines(found: dict[str, Any]) -> list[str]:
    """Return one document's entry as lines of text for people."""
    meta = json.dumps(found["meta"], ensure_ascii=False)
    text = [
        f"{found['id']}: {found['outcome']}",
        f"  source     {found['source']}, part {found['part']}, row {found['row']}, {meta}",
        f"  text       {found['language']}, {format_bytes(found['bytes'])}: {found['excerpt']}",
    ]
    if found["detected"] is not None:
        shares = ", ".join(f"{code} {share:.0%}" for code, share in found["detected"].items())
        text.append(f"  detected   {shares or 'nothing'}")
    if found["rules"]:
        text.append(f"  fails      {', '.join(found['rules'])} (the first rule removed the document)")
    if hit := found["contaminated"]:
        text.append(
            f"  evaluation {hit['hits']} n-grams shared with evaluation texts ({hit['share']:.0%} of the document's"
            f" n-grams), most of them with {hit['item']}"
        )
    if duplicate := found["duplicate"]:
        alike = (
            f"similarity {duplicate['similarity']:.2f}"
            if duplicate["similarity"] is not None
            else "similarity not computed"
        )
        text.append(
            f"  duplicate  {duplicate['kind']} duplicate of {duplicate['duplicate_of']} in"
            f" {duplicate['duplicate_of_part']}, {alike}, cluster of {duplicate['cluster_size']} documents"
        )
    if removed := found["removed_duplicates"]:
        text.append(f"  documents removed as duplicates of this document: {', '.join(removed)}")
    if repeated := found["repeated_lines"]:
        text.append(
            f"  stripped   {len(repeated)} lines, because many documents share them; the first: {repeated[0][:80]}"
        )
    if found["redacted"]:
        text.append("  redacted   personal data was replaced by placeholders")
    for name, measure in (found["measures"] or {}).items():
        limit = " ".join(
            f"{words} {measure[side]:g}"
            for side, words in (("min", "at least"), ("max", "at most"))
            if measure[side] is not None
        )
        mark = " " if measure["holds"] else "!"
        text.append(f"{mark} {name:<28} {measure['value']:<10.4g} {limit}".rstrip())
    return text
