"""Choose examples of removed documents per rule for the report. Personal data in the examples is always replaced."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.config.stages import JudgeStage
from data_prep.corpus.judge import WRONG_LANGUAGE
from data_prep.corpus.numbered_documents import NumberedDocuments
from data_prep.corpus.pii import PLACEHOLDERS, redact
from data_prep.corpus.removal_reason import CONTAMINATED, DUPLICATE_KINDS
from data_prep.formats.shard import read_manifest, read_table
from data_prep.report.read_duplicates import duplicates_of_part, ids_of, kept_node
from data_prep.report.rules import measure_of

PER_RULE = 3
EXCERPT_CHARACTERS = 160
BAD_ROWS = 20

Nodes = npt.NDArray[np.int64]


def excerpt(text: str, language: str = "") -> str:
    """Return the start of a text on one line, with personal data replaced."""
    # Personal data is replaced before the text is cut, so no part of an address remains. The first cut is long enough
    # even if much of the text is white space, which is collapsed below.
    start = " ".join(redact(text[: 1000 + 4 * EXCERPT_CHARACTERS], PLACEHOLDERS, language)[0].split())
    return start if len(start) <= EXCERPT_CHARACTERS else start[: EXCERPT_CHARACTERS - 1] + "…"


def excerpts(catalogue: NumberedDocuments, nodes: Nodes) -> list[dict[str, Any]]:
    """Return id, source, language and excerpt of the documents `nodes`, in the same order."""
    unique, places = np.unique(nodes, return_inverse=True)
    facts = catalogue.take("measures", ["source", "language"], unique).to_pylist()
    texts = [text for batch in catalogue.texts(unique) for text in batch["text"].to_pylist()]
    shown = [
        {"id": identity, **fact, "excerpt": excerpt(text, fact["language"])}
        for identity, fact, text in zip(ids_of(catalogue, unique), facts, texts, strict=True)
    ]
    return [dict(shown[place]) for place in places.tolist()]


def rule_examples(catalogue: NumberedDocuments, stage: JudgeStage) -> dict[str, list[dict[str, Any]]]:
    """Return up to `PER_RULE` removed documents per rule, from the languages and sources where the rule removed most.

    Each example has an excerpt and a reason. The reason is `value` and `limit`, the `detected` language, the kept
    document (`duplicate_of`), or the evaluation `item`. Only the tables of a few parts per rule are read.
    """
    found = {}
    for rule, picks in _picks(catalogue).items():
        chosen: list[int] = []
        for part, language in picks:
            # Take one example per language and source first, then any others.
            room = PER_RULE - len(chosen) if language is None else 1
            nodes = _nodes(catalogue, part, rule, language) if len(chosen) < PER_RULE else []
            chosen += [node for node in nodes if node not in chosen][:room]
        found[rule] = _reasoned(catalogue, rule, np.array(chosen, dtype=np.int64), stage)
    return found


def _picks(catalogue: NumberedDocuments) -> dict[str, list[tuple[str, str | None]]]:
    """Return, per rule, where to look for examples: first (part, language), then (part, None) for any language."""
    removed: dict[str, Counter[tuple[str, str]]] = {}
    first: dict[tuple[str, str, str], str] = {}
    parts: dict[str, list[str]] = {}
    for part in catalogue.parts:
        source = part.split("/")[0]
        for language, entry in read_manifest(catalogue.path("clean", part))["counts"]["languages"].items():
            for rule, size in entry["removed"].items():
                removed.setdefault(rule, Counter())[source, language] += size["documents"]
                first.setdefault((rule, source, language), part)
                known = parts.setdefault(rule, [])
                if part not in known[-1:] and len(known) < 2 * PER_RULE:
                    known.append(part)
    picks: dict[str, list[tuple[str, str | None]]] = {}
    for rule, counts in removed.items():
        most = sorted(counts, key=lambda key: (-counts[key], key))[:PER_RULE]
        picks[rule] = [(first[rule, source, language], language) for source, language in most]
        picks[rule] += [(part, None) for part in parts[rule]]
    return picks


def _nodes(catalogue: NumberedDocuments, part: str, rule: str, language: str | None) -> list[int]:
    """Return up to 2 x `PER_RULE` documents of a part that the rule removed, in `language` or, if it is None, in
    any."""
    gone = ~catalogue.kept(part)
    rule_of = np.full(len(gone), "", dtype=object)
    rule_of[gone] = read_table(catalogue.path("verdicts", part), ["rule"])["rule"].filter(pa.array(gone)).to_pylist()
    # Use the same order as the clean stage: first the judge, then evaluation texts, then duplicates.
    for row in _hits(catalogue, part):
        rule_of[row] = rule_of[row] or CONTAMINATED
    duplicates = duplicates_of_part(catalogue.corpus, part)
    for row, kind in zip(duplicates["row"].to_pylist(), duplicates["kind"].to_pylist(), strict=True):
        rule_of[row] = rule_of[row] or DUPLICATE_KINDS[kind]
    wanted = rule_of == rule
    if language is not None:
        languages = read_table(catalogue.path("measures", part), ["language"])["language"]
        wanted &= np.asarray(pc.equal(languages, language))
    return [catalogue.start(part) + int(row) for row in np.flatnonzero(wanted)[: 2 * PER_RULE]]


def _hits(catalogue: NumberedDocuments, part: str) -> dict[int, dict[str, Any]]:
    """Return the rows of a part that match evaluation texts. The result is empty without a search for such texts."""
    path = catalogue.path("contaminated", part)
    return {row["row"]: row for row in read_table(path).to_pylist()} if path.exists() else {}


def _reasoned(catalogue: NumberedDocuments, rule: str, nodes: Nodes, stage: JudgeStage) -> list[dict[str, Any]]:
    """Return documents that a rule removed, with their excerpts and the reason for the removal."""
    shown = excerpts(catalogue, nodes)
    column = "detected" if rule == WRONG_LANGUAGE else measure_of(rule)
    if column is not None:
        order = np.argsort(nodes)
        values = dict(
            zip(
                nodes[order].tolist(),
                catalogue.take("measures", [column], nodes[order])[column].to_pylist(),
                strict=True,
            )
        )
    for node, entry in zip(nodes.tolist(), shown, strict=True):
        number = int(np.searchsorted(catalogue.bounds, node, side="right")) - 1
        part, row = catalogue.parts[number], node - int(catalogue.bounds[number])
        if rule == WRONG_LANGUAGE:
            entry |= {"detected": values[node]}
        elif column is not None:
            limits = stage.limits(entry["source"], entry["language"])
            entry |= {"value": values[node], "limit": getattr(limits, rule)}
        elif rule == CONTAMINATED:
            hit = _hits(catalogue, part)[row]
            entry |= {name: hit[name] for name in ("item", "hits", "share")}
        elif rule in DUPLICATE_KINDS.values():
            duplicate = duplicates_of_part(catalogue.corpus, part).filter(pc.field("row") == row).to_pylist()[0]
            entry |= {name: duplicate[name] for name in ("duplicate_of", "similarity", "cluster_size")}
            kept = kept_document(catalogue, duplicate)
            entry |= {f"duplicate_of_{name}": kept[name] for name in ("source", "language", "excerpt")}
    return shown


def kept_document(catalogue: NumberedDocuments, row: dict[str, Any]) -> dict[str, Any]:
    """Return the document that was kept instead of a duplicate. A document of an earlier run has no excerpt."""
    node = kept_node(catalogue, row)
    if node is None:
        return {"id": row["duplicate_of"], "source": "an earlier run", "language": "", "excerpt": ""}
    return excerpts(catalogue, np.array([node]))[0]


def bad_row_examples(corpus: Path, parts: list[str]) -> list[dict[str, Any]]:
    """Return the first `BAD_ROWS` bad rows of the corpus: file, line, reason, detail and a redacted excerpt."""
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
