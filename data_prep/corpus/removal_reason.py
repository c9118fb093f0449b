"""Decide which rule removes each document.

A document can fail rules of judge, share n-grams with an evaluation text and be a duplicate, all at once. One rule is
recorded as the cause: the first failing rule of judge, else contamination, else the duplicate search.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data_prep.corpus.dedup.read_resolved import read_resolved
from data_prep.formats.shard import read_table

DUPLICATE_KINDS = {"exact": "exact_duplicate", "near": "near_duplicate"}
"""Name of the rule that removes each kind of duplicate."""

CONTAMINATED = "contaminated"
"""Name of the rule that removes documents that share n-grams with an evaluation text."""


class Duplicates(NamedTuple):
    """Tables that the duplicate search wrote, one file per partition in each list."""

    resolved: list[Path]
    """Tables of documents that are removed as duplicates of a kept document."""
    repeated: list[Path]
    """Tables of documents that get a new id, because an earlier document has the same id."""


@dataclass(frozen=True)
class RemovalReasons:
    """The reasons why documents of a part are removed. Each field has one entry per document of the part."""

    rule: npt.NDArray[np.object_]
    """Rule that removes the document; empty string if the document is kept."""
    rules: pa.ChunkedArray
    """list<string>: every rule of judge that the document fails."""
    duplicate_of: npt.NDArray[np.object_]
    """Id of the kept document that this document duplicates, or None."""

    @classmethod
    def of(cls, judged: pa.Table, duplicates: Duplicates, part: str, contaminated: Path | None) -> RemovalReasons:
        """Combine the verdicts of a part with its duplicates and its matches with evaluation texts."""
        rule = np.asarray(judged["rule"].to_pylist(), dtype=object)
        duplicate_of = np.full(len(rule), None, dtype=object)
        # This comes before the duplicates: a document that is both contaminated and a duplicate counts as contaminated.
        if contaminated is not None:
            hit = read_table(contaminated, ["row"])["row"].to_numpy()
            rule[hit[rule[hit] == ""]] = CONTAMINATED
        for path in duplicates.resolved:
            for row in read_resolved(path, part).select(["row", "kind", "duplicate_of"]).to_pylist():
                if rule[row["row"]] == "":
                    rule[row["row"]] = DUPLICATE_KINDS[row["kind"]]
                    duplicate_of[row["row"]] = row["duplicate_of"]
        return cls(rule, judged["rules"], duplicate_of)
