"""A few removed documents per rule, so that a person can see what a number means. Personal data never gets in."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.contracts.shard import read_manifest, read_table
from data_prep.corpus.catalogue import Catalogue
from data_prep.corpus.clean import CONTAMINATED, DUPLICATE_KINDS, read_duplicates
from data_prep.corpus.pii import PLACEHOLDERS, redact

PER_RULE = 3
EXCERPT_CHARACTERS = 80
BAD_ROWS = 20


def excerpt(text: str, language: str = "") -> str:
    """The text's start on one line, personal data replaced before it is cut."""
    # Four times the length is enough white space to spare, and an address is replaced whole before the cut.
    start = " ".join(redact(text[: 1000 + 4 * EXCERPT_CHARACTERS], PLACEHOLDERS, language)[0].split())
    return start if len(start) <= EXCERPT_CHARACTERS else start[: EXCERPT_CHARACTERS - 1] + "…"


def rule_examples(catalogue: Catalogue) -> dict[str, list[dict[str, Any]]]:
    """Up to `PER_RULE` removed documents per rule, from the first parts that have any.

    Only tables of parts whose manifest says that they hold what is still missing are read.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    duplicates = catalogue.corpus / "duplicates" / "duplicates.parquet"
    for number, part in enumerate(catalogue.parts):
        counts = read_manifest(catalogue.path("clean", part))["counts"]["languages"].values()
        rules = {rule for entry in counts for rule in entry["removed"]}
        wanted = sorted(rule for rule in rules if len(found.get(rule, [])) < PER_RULE)
        if not wanted:
            continue
        twins = read_duplicates(duplicates, part).to_pylist() if set(wanted) & set(DUPLICATE_KINDS.values()) else []
        verdicts = read_table(catalogue.path("verdicts", part), ["id", "rule"])
        for rule in wanted:
            known = found.setdefault(rule, [])
            details: list[dict[str, Any]] = [{}] * PER_RULE
            if rule in DUPLICATE_KINDS.values():
                chosen = [row for row in twins if DUPLICATE_KINDS[row["kind"]] == rule][: PER_RULE - len(known)]
                ids = pa.array([row["id"] for row in chosen], pa.string())
                rows = np.asarray(pc.index_in(ids, value_set=verdicts["id"].combine_chunks()), dtype=np.int64)
                details = [{name: row[name] for name in ("twin", "similarity", "cluster_size")} for row in chosen]
            elif rule == CONTAMINATED:
                removed = read_table(catalogue.path("removed", part), ["id", "rule"])
                ids = removed.filter(pc.field("rule") == rule)["id"][: PER_RULE - len(known)].combine_chunks()
                rows = np.asarray(pc.index_in(ids, value_set=verdicts["id"].combine_chunks()), dtype=np.int64)
                hits = {row["id"]: row for row in read_table(catalogue.path("contaminated", part)).to_pylist()}
                details = [{name: hits[one][name] for name in ("item", "hits", "share")} for one in ids.to_pylist()]
            else:
                rows = np.flatnonzero(np.asarray(pc.equal(verdicts["rule"], rule)))[: PER_RULE - len(known)]
            known += _described(catalogue, number, rows.astype(np.int64), rule, details)
    return found


def _described(
    catalogue: Catalogue,
    number: int,
    rows: np.ndarray[Any, np.dtype[np.int64]],
    rule: str,
    details: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Id, language, source, excerpt and the value that broke the rule, of rows (sorted by id, as shards are)."""
    nodes = rows + catalogue.bounds[number]
    measure = rule[4:] if rule.startswith(("min_", "max_")) else "detected"
    facts = catalogue.take("measures", list(dict.fromkeys(["id", "source", "language", "detected", measure])), nodes)
    texts = [text for batch in catalogue.texts(nodes) for text in batch["text"].to_pylist()]
    described = []
    for fact, text, detail in zip(facts.to_pylist(), texts, details, strict=False):
        entry = {"id": fact["id"], "source": fact["source"], "language": fact["language"]}
        entry["excerpt"] = excerpt(text, fact["language"])
        if rule not in (*DUPLICATE_KINDS.values(), CONTAMINATED):
            entry["value"] = fact[measure]
        described.append(entry | detail)
    return described


def bad_row_examples(corpus: Path, parts: list[str]) -> list[dict[str, Any]]:
    """The first bad rows of the corpus: file, line, reason, detail and a redacted excerpt."""
    rows: list[dict[str, Any]] = []
    for part in parts:
        path = corpus / "quarantine" / f"{part}.jsonl"
        if len(rows) >= BAD_ROWS or not path.exists():
            continue
        with path.open(encoding="utf-8") as file:
            for line in islice(file, BAD_ROWS - len(rows)):
                row = json.loads(line)
                shown = {"excerpt": excerpt(row["excerpt"]), "detail": excerpt(row["detail"])}
                rows.append({"source": part.split("/")[0]} | row | shown)
    return rows
