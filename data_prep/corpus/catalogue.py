"""All shards of a corpus as one numbered sequence of documents: what the steps over the whole corpus work on.

A *node* is a document's place in that sequence (int64): parts in the manifest's order, rows in the shard's. The shards
(raw, measures, verdicts) of one part have the same rows in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.contracts.shard import open_table, read_manifest, read_table

Nodes = npt.NDArray[np.int64]


class Catalogue:
    """Parts of a corpus folder and the numbers of their documents. 8 bytes a part: no document is held."""

    def __init__(self, corpus: Path, parts: Path) -> None:
        """Read the list of parts (`["source/00000", ...]`).

        Raises:
            InputError: it or a manifest is missing, or a source has more bad rows than its `max_bad_share` allows.
                Ingest sees a part only; this is the first place that sees the whole source.
        """
        self.corpus = corpus
        self.parts: list[str] = read_json(parts)
        manifests = [read_manifest(self.path("raw", part)) for part in self.parts]
        _refuse_bad_sources(self.parts, [manifest["counts"] for manifest in manifests])
        rows = [manifest["rows"] for manifest in manifests]
        for part, count in zip(self.parts, rows, strict=True):
            for folder in ("measures", "verdicts"):
                found = read_manifest(self.path(folder, part))["rows"]
                if found != count:
                    raise InputError(
                        f"{found} rows, but {count} documents",
                        where=str(self.path(folder, part)),
                        expected="one row a document of the raw shard; run measure and judge again",
                    )
        self.bounds: Nodes = np.cumsum([0, *rows], dtype=np.int64)
        """int64 [parts + 1]: documents of part i are bounds[i] to bounds[i + 1]."""

    def path(self, folder: str, part: str) -> Path:
        """Table of a part."""
        return self.corpus / folder / f"{part}.parquet"

    @property
    def documents(self) -> int:
        """Number of documents."""
        return int(self.bounds[-1])

    def kept(self, part: str) -> npt.NDArray[np.bool_]:
        """bool [rows]: what judge kept."""
        column = read_table(self.path("verdicts", part), ["kept"])["kept"]
        return np.asarray(column.to_numpy()).astype(np.bool_)

    def by_part(self, nodes: Nodes) -> Iterator[tuple[int, Nodes]]:
        """(number of the part, rows in it) of sorted nodes, for the parts that hold any."""
        cuts = np.searchsorted(nodes, self.bounds)
        for number in np.flatnonzero(np.diff(cuts)):
            yield int(number), nodes[cuts[number] : cuts[number + 1]] - self.bounds[number]

    def take(self, folder: str, columns: list[str], nodes: Nodes) -> pa.Table:
        """Rows of sorted nodes. Raises InputError for a damaged table."""
        pieces = [
            read_table(self.path(folder, self.parts[number]), columns).take(pa.array(rows))
            for number, rows in self.by_part(nodes)
        ]
        if not pieces:
            return read_table(self.path(folder, self.parts[0]), columns).slice(0, 0)
        return pa.concat_tables(pieces)

    def texts(self, nodes: Nodes) -> Iterator[pa.RecordBatch]:
        """Batches of `text, language` of sorted nodes, in order; row groups without any of them are not read."""
        for number, rows in self.by_part(nodes):
            with open_table(self.path("raw", self.parts[number])) as file:
                start = 0
                for group in range(file.num_row_groups):
                    size = file.metadata.row_group(group).num_rows
                    inside = rows[(rows >= start) & (rows < start + size)] - start
                    if len(inside):
                        table = file.read_row_group(group, columns=["text", "language"]).take(pa.array(inside))
                        yield from table.combine_chunks().to_batches()
                    start += size


def _refuse_bad_sources(parts: list[str], counts: list[dict[str, Any]]) -> None:
    """Raise InputError for a source whose share of bad rows is above its limit, over all its parts."""
    reasons: dict[str, Counter[str]] = {}
    documents: Counter[str] = Counter()
    limits: dict[str, float] = {}
    for part, count in zip(parts, counts, strict=True):
        source = part.split("/")[0]
        reasons.setdefault(source, Counter()).update(count["bad_reasons"])
        documents[source] += count["documents"]
        limits[source] = count.get("max_bad_share", 1.0)
    for source, found in reasons.items():
        bad, rows = found.total(), found.total() + documents[source]
        if bad > limits[source] * rows:
            most = ", ".join(f"{reason} ({number})" for reason, number in found.most_common(3))
            raise InputError(
                f"{bad} of {rows} rows are bad ({100 * bad / rows:.2f} %, max_bad_share"
                f" {100 * limits[source]:.2f} %): {most}",
                where=f"sources[{source}]",
                expected="a source with fewer bad rows, or a higher max_bad_share; the bad rows are listed in"
                f" corpus/quarantine/{source}/",
            )
