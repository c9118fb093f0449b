"""Aligned text: what the same content costs in each language. Bounded, so that any file can be named."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bloomery.base.errors import InputError
from data_prep.formats.shard import iterate_batches
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer

MOST_ROWS = 4096
"""Rows of aligned text that are read."""
Rows = list[dict[str, str]]
"""Per unit of content its text in each language that has it."""


def read_parallel(path: Path) -> Rows:
    """Rows of a folder of `<language>.txt` or of a JSON Lines file. Raises InputError."""
    if path.is_dir():
        columns = {file.stem: _lines(file) for file in sorted(path.glob("*.txt"))}
        lengths = {code: len(lines) for code, lines in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"files of different length: {lengths}", where=str(path), expected="line n says the same")
        rows = [dict(zip(columns, texts, strict=True)) for texts in zip(*columns.values(), strict=True)]
    elif path.is_file():
        rows = list(_objects(path))
    else:
        raise InputError("no such file or folder", where=str(path), expected="<language>.txt files, or JSON Lines")
    if not rows:
        raise InputError("holds no aligned text", where=str(path), expected="<language>.txt files, or JSON Lines")
    return [{code: text for code, text in row.items() if text.strip()} for row in rows[:MOST_ROWS]]


def _lines(file: Path) -> list[str]:
    """All lines: the files must be equally long."""
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 ({error})", where=str(file)) from error
    return lines[:-1] if lines[-1] == "" else lines


def _objects(file: Path) -> Iterator[dict[str, str]]:
    with file.open("rb") as handle:
        for number, line in zip(range(MOST_ROWS), handle, strict=False):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"not JSON ({error})", where=f"{file}:{number + 1}") from error
            if not isinstance(row, dict):
                raise InputError("not an object", where=f"{file}:{number + 1}", expected='{"en": "...", "fr": "..."}')
            yield {code: text for code, text in row.items() if isinstance(text, str)}


def parallel_documents(shards: Mapping[str, Path], source: str) -> Rows:
    """Documents of a source (shards `<source>/<part>`), brought together by their source's field `parallel`.

    Of several in a language the one with the smallest id is taken. Raises InputError when there are none.
    """
    found: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for shard in (path for name, path in sorted(shards.items()) if name.split("/")[0] == source):
        for batch in iterate_batches(shard, ["id", "language", "text", "meta"]):
            for row in batch.to_pylist():
                key = _key(row["meta"])
                if key is not None and (key in found or len(found) < MOST_ROWS):
                    one = (row["id"], row["text"])
                    found[key][row["language"]] = min(found[key].get(row["language"], one), one)
    if not found:
        raise InputError(
            "no document has a field `parallel`",
            where=f"source {source}",
            expected="the same value in documents that say the same in different languages",
        )
    return [{code: text for code, (_, text) in sorted(found[key].items())} for key in sorted(found)]


def _key(meta: str) -> str | None:
    value = json.loads(meta).get("fields", {}).get("parallel") if meta else None
    return None if value is None else str(value)


def parities(subject: ReportedTokenizer, rows: Rows, reference: str) -> dict[str, dict[str, Any]]:
    """Per language its tokens over the reference's for the rows that both have, and how many rows these are."""
    texts: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, row in enumerate(rows):
        for code, text in row.items():
            texts[code].append((number, text))
    lengths = {}
    for code, numbered in texts.items():
        lengths[code] = np.zeros(len(rows), np.int64)
        lengths[code][[number for number, _ in numbered]] = subject.lengths([text for _, text in numbered])
    if reference not in lengths:
        return {}
    result = {}
    for code in sorted(lengths):
        both = (lengths[code] > 0) & (lengths[reference] > 0)
        if both.any():
            ratio = int(lengths[code][both].sum()) / int(lengths[reference][both].sum())
            result[code] = {"parity": round(ratio, 4), "parity_rows": int(both.sum())}
    return result
