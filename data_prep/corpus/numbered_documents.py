"""All shards of a corpus as one numbered sequence of documents: what the steps over the whole corpus work on.

A *node* is a document's place in that sequence (int64): parts in the manifest's order, rows in the shard's. The tables
(raw, measures, verdicts) of one part have the same rows in the same order. The parts of earlier runs whose documents
go before (`dedup.against`) follow the run's own, by names that begin with `_earlier/`, as no source does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.orchestration.part_names import corpus_of, earlier_parts, local_name, own_part
from data_prep.formats.shard import manifest_path, read_manifest, read_rows, read_span, read_table

Nodes = npt.NDArray[np.int64]


def read_part(path: Path, part: str) -> pa.Table:
    """The rows of one part in a table that is sorted by part and whose manifest counts `spans`."""
    start, end = read_manifest(path)["counts"]["spans"].get(part, (0, 0))
    return read_span(path, start, end)


def renamed_rows(repeated: list[Path], part: str) -> dict[int, str]:
    """Row -> final id of a part's second and later documents of a key, from the tables of all partitions."""
    return {row["row"]: row["id"] for path in repeated for row in read_part(path, part).to_pylist()}


class CorpusTables:
    """Where the tables of a part lie, of this run or of an earlier one."""

    def __init__(self, corpus: Path, against: list[str] | None = None) -> None:
        """`corpus`: the run's folder of them; `against`: folders of earlier runs."""
        self.corpus = corpus
        self._against = against or []

    def path(self, folder: str, part: str) -> Path:
        """A part's table of documents, measures, verdicts or what stayed; an earlier run's lies in its own folder."""
        return corpus_of(part, self.corpus, self._against) / folder / f"{local_name(part)}.parquet"

    def text_path(self, part: str) -> Path:
        """The table whose texts were measured: `raw`, or `stripped` where repeated lines were taken out of it.

        Raises:
            InputError: it is not there any more.
        """
        digest = read_manifest(self.path("measures", part))["inputs"]["documents"]
        for folder in ("stripped", "raw"):
            path = self.path(folder, part)
            if path.exists() and read_manifest(path)["file"]["digest"] == digest:
                return path
        raise InputError(
            "the texts that were measured are not there any more",
            where=str(self.path("raw", part)),
            expected="the documents and the measures of one run",
        )

    def kept(self, part: str) -> npt.NDArray[np.bool_]:
        """bool [rows]: what judge kept; of an earlier run, what its clean corpus holds."""
        if own_part(part):
            column = read_table(self.path("verdicts", part), ["kept"])["kept"]
            return np.asarray(column.to_numpy()).astype(np.bool_)
        clean = read_table(self.path("clean", part), ["id"])["id"].combine_chunks()
        kept = pc.is_in(self.final_ids(part), value_set=clean)
        return np.asarray(kept.to_numpy(zero_copy_only=False)).astype(np.bool_)

    def partitioned(self, name: str, part: str) -> list[Path]:
        """The tables `name-<partition>` of the search for duplicates in the part's run; of this run, those made so far.

        Their number is that of the search that was made: the configuration may have been planned anew since.

        Raises:
            InputError: an earlier run lacks one: what it kept could not be told.
        """
        folder = corpus_of(part, self.corpus, self._against) / "duplicates"
        clusters = folder / "clusters.parquet"
        if own_part(part) and not manifest_path(clusters).exists():
            return []
        partitions = len(read_manifest(clusters)["counts"]["spans"])
        paths = [folder / f"{name}-{number}.parquet" for number in range(partitions)]
        missing = [path for path in paths if not path.exists()]
        if missing and not own_part(part):
            raise InputError("no such file", where=str(missing[0]), expected="an earlier run with a finished corpus")
        return [path for path in paths if path.exists()]

    def final_ids(self, part: str) -> pa.Array:
        """string [rows]: ids of a part's documents, occurrences of one key told apart."""
        ids = read_table(self.path("measures", part), ["id"])["id"].combine_chunks()
        renamed = renamed_rows(self.partitioned("repeated", part), local_name(part))
        if not renamed:
            return ids
        values = np.array(ids.to_pylist(), dtype=object)
        values[list(renamed)] = list(renamed.values())
        return pa.array(values, pa.string())


class NumberedDocuments(CorpusTables):
    """Parts of a corpus folder and the numbers of their documents. 8 bytes a part: no document is held."""

    def __init__(self, corpus: Path, parts: Path, against: list[str] | None = None) -> None:
        """Read the list of parts (`["source/00000", ...]`).

        Raises:
            InputError: it or a manifest is missing, or a source has more bad rows than its `max_bad_share` allows.
                Ingest sees a part only; this is the first place that sees the whole source.
        """
        super().__init__(corpus, against)
        own: list[str] = read_json(parts)
        self.parts = own + earlier_parts(against or [])
        """Names of all parts, in the order of the nodes."""
        manifests = [read_manifest(self.path("raw", part)) for part in own]
        _refuse_bad_sources(own, [manifest["counts"] for manifest in manifests])
        rows = [read_manifest(self.path("measures", part))["rows"] for part in self.parts]
        for part, count, manifest in zip(own, rows, manifests, strict=False):
            for folder, found in (
                ("measures", count),
                ("verdicts", read_manifest(self.path("verdicts", part))["rows"]),
            ):
                if found != manifest["rows"]:
                    raise InputError(
                        f"{found} rows, but {manifest['rows']} documents",
                        where=str(self.path(folder, part)),
                        expected="one row a document of the raw shard; run measure and judge again",
                    )
        self.bounds: Nodes = np.cumsum([0, *rows], dtype=np.int64)
        """int64 [parts + 1]: documents of part i are bounds[i] to bounds[i + 1]."""

    @property
    def documents(self) -> int:
        """Number of documents."""
        return int(self.bounds[-1])

    def start(self, part: str) -> int:
        """Node of a part's first document."""
        return int(self.bounds[self.parts.index(part)])

    def take(self, folder: str, columns: list[str], nodes: Nodes) -> pa.Table:
        """Rows of sorted nodes. Raises InputError for a damaged table."""
        pieces = [
            read_table(self.path(folder, self.parts[number]), columns).take(pa.array(rows))
            for number, rows in self._by_part(nodes)
        ]
        if not pieces:
            return read_table(self.path(folder, self.parts[0]), columns).slice(0, 0)
        return pa.concat_tables(pieces)

    def texts(self, nodes: Nodes) -> Iterator[pa.RecordBatch]:
        """Batches of `text, language` of sorted nodes, in order; row groups without any of them are not read."""
        for number, rows in self._by_part(nodes):
            yield from read_rows(self.text_path(self.parts[number]), rows, ["text", "language"])

    def _by_part(self, nodes: Nodes) -> Iterator[tuple[int, Nodes]]:
        """(number of the part, rows in it) of sorted nodes, for the parts that hold any."""
        cuts = np.searchsorted(nodes, self.bounds)
        for number in np.flatnonzero(np.diff(cuts)):
            yield int(number), nodes[cuts[number] : cuts[number + 1]] - self.bounds[number]

    def spans(self, nodes: Nodes) -> dict[str, list[int]]:
        """`{part: [first, end]}`: which of the sorted `nodes` lie in which part, for the parts that hold any."""
        cuts = np.searchsorted(nodes, self.bounds).tolist()
        return {
            part: [cuts[number], cuts[number + 1]]
            for number, part in enumerate(self.parts)
            if cuts[number] < cuts[number + 1]
        }


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
