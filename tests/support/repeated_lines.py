"""Make shards with repeated lines, and remove these lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bloomery.config.stages import LinesStage, RepeatedLinesStage
from data_prep.corpus.lines import count_lines, find_repeated_lines, strip_lines
from data_prep.formats.shard import DOCUMENT_SCHEMA, read_manifest, read_table, write_table

NOTICE = "All rights reserved, do not copy."
MENU = "Home | News | Contact | About us"
Row = tuple[str, str, str]


def lines_stage(partitions: int = 1) -> LinesStage:
    return LinesStage(min_characters=15, partitions=partitions, untouched=["code"])


def run(
    corpus: Path,
    shards: dict[str, list[Row]],
    partitions: int = 1,
    least: int | dict[str, int] = 3,
    memory_bytes: int = 1 << 29,
    run_rows: int = count_lines.RUN_ROWS,
) -> dict[str, tuple[str, str]]:
    """Run the three stages that count, find and remove the repeated lines of shards.

    The rows of the shards are (id, language, text). Return (language, text) by id.
    """
    stage = lines_stage(partitions)
    names = {part.split("/")[0] for part in shards}
    limits = least if isinstance(least, dict) else dict.fromkeys(names, least)
    for part, rows in shards.items():
        columns = [[row[0] for row in rows], [part.split("/")[0]] * len(rows), [row[1] for row in rows]]
        columns += [[row[2] for row in rows], [""] * len(rows)]
        raw = corpus / "raw" / f"{part}.parquet"
        write_table(raw, pa.table(columns, schema=DOCUMENT_SCHEMA), kind="documents", inputs={}, parameters="")
        count_lines.count_lines(stage, raw, find_repeated_lines.lines_path(corpus, part), run_rows)
    parts = corpus / "parts.json"
    parts.write_text(json.dumps(list(shards)))
    gather = RepeatedLinesStage(min_documents=limits, partitions=partitions, memory_bytes=memory_bytes)
    for partition in range(partitions):
        output = find_repeated_lines.repeated_path(corpus, partition)
        find_repeated_lines.find_repeated_lines(gather, corpus, parts, partition, output)
    found: dict[str, tuple[str, str]] = {}
    for part, rows in shards.items():
        output = corpus / "stripped" / f"{part}.parquet"
        strip_lines.strip_lines(stage, corpus / "raw" / f"{part}.parquet", corpus, output)
        table = read_table(output)
        assert table.schema == DOCUMENT_SCHEMA
        assert table["id"].to_pylist() == [row[0] for row in rows]
        found |= {row["id"]: (row["language"], row["text"]) for row in table.to_pylist()}
    return found


def counts(corpus: Path, part: str) -> dict[str, Any]:
    found: dict[str, Any] = read_manifest(corpus / "stripped" / f"{part}.parquet")["counts"]
    return found


def article(name: str, *lines: str) -> str:
    return "\n".join([f"What {name} is about in its first line", *lines, f"  and what {name} says last"])


def web(documents: int, shard_rows: int, *, backwards: bool = False) -> dict[str, list[Row]]:
    """Return shards of articles from two sources. Half of the articles have a notice, and a third have a menu."""
    rng = np.random.default_rng(7)
    shards: dict[str, list[Row]] = {}
    for source in ("news", "web"):
        rows = [
            (
                f"{source}{number}",
                "en" if number % 5 else "fr",
                article(
                    f"{source} {number}",
                    *([NOTICE] if number % 2 else []),
                    *([f"\t{MENU}\r"] if number % 3 == 0 else []),
                    *(f"a sentence of few words, number {rng.integers(60)}" for _ in range(4)),
                ),
            )
            for number in range(documents)
        ]
        rows = rows[::-1] if backwards else rows
        for start in range(0, documents, shard_rows):
            shards[f"{source}/{start // shard_rows:05d}"] = rows[start : start + shard_rows]
    return dict(reversed(shards.items())) if backwards else shards
