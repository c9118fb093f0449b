"""Read aligned text (the same content in several languages) and compare how many tokens it needs in each language.

At most `MOST_ROWS` rows are used, so aligned text of any size can be configured.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bloomery.base.errors import InputError
from bloomery.base.unreadable import why_unreadable
from data_prep.formats.shard import iterate_batches
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer

MOST_ROWS = 4096
"""Maximum number of rows of aligned text that are used."""
_ALIGNED = "a folder of <language>.txt files, or a JSON Lines file with one text per language code in each line"
_ROW = 'a line such as {"en": "...", "fr": "..."}'
Rows = list[dict[str, str]]
"""Rows of aligned text. Each row holds the same content as text in several languages, by language code."""


def read_parallel(path: Path) -> Rows:
    """Return the rows of a folder of `<language>.txt` files, or of a JSON Lines file.

    Raises InputError if the path does not exist, has no aligned text, or is damaged.
    """
    if path.is_dir():
        columns = {file.stem: _lines(file) for file in sorted(path.glob("*.txt"))}
        lengths = {code: len(lines) for code, lines in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(
                f"the files have different numbers of lines: {lengths}",
                where=str(path),
                expected="files in which line n has the same content in every language",
            )
        rows = [dict(zip(columns, texts, strict=True)) for texts in zip(*columns.values(), strict=True)]
    elif path.is_file():
        rows = list(_objects(path))
    else:
        raise InputError("no such file or folder", where=str(path), expected=_ALIGNED)
    if not rows:
        raise InputError("there is no aligned text", where=str(path), expected=_ALIGNED)
    return [{code: text for code, text in row.items() if text.strip()} for row in rows[:MOST_ROWS]]


def _lines(file: Path) -> list[str]:
    """Return all lines of a file.

    Lines after the first `MOST_ROWS` are also returned, because the caller compares the numbers of lines of the files.
    """
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(why_unreadable(error), where=str(file), expected="a file of UTF-8 text") from error
    return lines[:-1] if lines[-1] == "" else lines


def _objects(file: Path) -> Iterator[dict[str, str]]:
    with file.open("rb") as handle:
        for number, line in zip(range(MOST_ROWS), handle, strict=False):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(why_unreadable(error), where=f"{file}:{number + 1}", expected=_ROW) from error
            if not isinstance(row, dict):
                raise InputError("not a JSON object", where=f"{file}:{number + 1}", expected=_ROW)
            yield {code: text for code, text in row.items() if isinstance(text, str)}


def parallel_documents(shards: Mapping[str, Path], source: str) -> Rows:
    """Return aligned rows. The documents of a row come from one source and have the same value in the field `parallel`.

    If several documents of a row have the same language, the one with the smallest id is used.

    Args:
        shards: path of each shard, by name (`<source>/<part>`).
        source: name of the source.

    Raises:
        InputError: if no document of the source has the field.
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
            "no document has the field `parallel`",
            where=f"source {source}",
            expected="the same value of this field in documents with the same content; or another source in "
            "tokenizer.report.parallel_source",
        )
    return [{code: text for code, (_, text) in sorted(found[key].items())} for key in sorted(found)]


def _key(meta: str) -> str | None:
    value = json.loads(meta).get("fields", {}).get("parallel") if meta else None
    return None if value is None else str(value)


def parities(subject: ReportedTokenizer, rows: Rows, reference: str) -> dict[str, dict[str, Any]]:
    """Return, per language, its parity and the number of rows from which the parity is computed.

    The parity is the number of the language's tokens divided by the number of the reference's tokens. It is computed
    from the rows that exist in both languages. The result is empty if no row has the reference language.
    """
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
