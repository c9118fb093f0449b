"""All shards of a corpus as one numbered sequence of documents, for the steps that work on the whole corpus.

A *node* (int64) is the number of a document in that sequence. Parts are in the order of parts.json, documents in the
order of their shard. The tables of one part (raw, measures, verdicts) have the same rows in the same order. The parts
of earlier runs (`dedup.against`) come after the run's own parts. Their names begin with `_earlier/`, which no name of
a source does.
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

from bloomery.base.errors import InputError
from bloomery.contracts.part_names import corpus_of, earlier_parts, local_name, own_part
from bloomery.contracts.safe_path import read_part_names
from data_prep.formats.shard import manifest_path, read_manifest, read_rows, read_span, read_table

Nodes = npt.NDArray[np.int64]


def read_part(path: Path, part: str) -> pa.Table:
    """Return the rows of one part from a table that is sorted by part and has `spans` in its manifest."""
    start, end = read_manifest(path)["counts"]["spans"].get(part, (0, 0))
    return read_span(path, start, end)


def renamed_rows(repeated: list[Path], part: str) -> dict[int, str]:
    """Return {row: final id} for the documents of a part whose id an earlier document already has.

    `repeated` lists the tables of repeated ids, one table per partition.
    """
    return {row["row"]: row["id"] for path in repeated for row in read_part(path, part).to_pylist()}


class CorpusTables:
    """Locates the tables of a part of this run or of an earlier run."""

    def __init__(self, corpus: Path, against: list[str] | None = None) -> None:
        """`corpus` is the corpus folder of this run; `against` lists the run folders of earlier runs."""
        self.corpus = corpus
        self._against = against or []

    def path(self, folder: str, part: str) -> Path:
        """Return the path of a part's table in `folder`, such as `measures`.

        The tables of an earlier run's part are in the corpus folder of that run.
        """
        return corpus_of(part, self.corpus, self._against) / folder / f"{local_name(part)}.parquet"

    def text_path(self, part: str) -> Path:
        """Return the table whose texts were measured: `stripped` if repeated lines were removed, else `raw`.

        Raises:
            InputError: the table no longer exists or its content has changed.
        """
        digest = read_manifest(self.path("measures", part))["inputs"]["documents"]
        for folder in ("stripped", "raw"):
            path = self.path(folder, part)
            if path.exists() and read_manifest(path)["file"]["digest"] == digest:
                return path
        raise InputError(
            "the documents were changed or deleted after they were measured",
            where=str(self.path("raw", part)),
            expected="the documents that the measures were computed from; delete"
            f" {self.path('measures', part)} and run the workflow again, so that they are measured again",
        )

    def kept(self, part: str) -> npt.NDArray[np.bool_]:
        """Return bool [rows]: true if judge kept the document, or, for an earlier run, if its clean corpus has it."""
        if own_part(part):
            column = read_table(self.path("verdicts", part), ["kept"])["kept"]
            return np.asarray(column.to_numpy()).astype(np.bool_)
        clean = read_table(self.path("clean", part), ["id"])["id"].combine_chunks()
        kept = pc.is_in(self.final_ids(part), value_set=clean)
        return np.asarray(kept.to_numpy(zero_copy_only=False)).astype(np.bool_)

    def partitioned(self, name: str, part: str) -> list[Path]:
        """Return the tables `<name>-<partition>` that the duplicate search wrote in the run of this part.

        For this run, only the tables that exist so far are returned. The number of partitions is read from the
        finished search, because `dedup.partitions` may have changed in the configuration since.

        Raises:
            InputError: an earlier run lacks a table, so its kept documents cannot be determined.
        """
        folder = corpus_of(part, self.corpus, self._against) / "duplicates"
        clusters = folder / "clusters.parquet"
        if own_part(part) and not manifest_path(clusters).exists():
            return []
        partitions = len(read_manifest(clusters)["counts"]["spans"])
        paths = [folder / f"{name}-{number}.parquet" for number in range(partitions)]
        missing = [path for path in paths if not path.exists()]
        if missing and not own_part(part):
            raise InputError(
                "no such file",
                where=str(missing[0]),
                expected="an earlier run with a finished corpus; finish its corpus first, or remove the run from"
                " corpus.dedup.against",
            )
        return [path for path in paths if path.exists()]

    def final_ids(self, part: str) -> pa.Array:
        """Return string [rows]: the final, unique ids of a part's documents."""
        ids = read_table(self.path("measures", part), ["id"])["id"].combine_chunks()
        renamed = renamed_rows(self.partitioned("repeated", part), local_name(part))
        if not renamed:
            return ids
        values = np.array(ids.to_pylist(), dtype=object)
        values[list(renamed)] = list(renamed.values())
        return pa.array(values, pa.string())


class NumberedDocuments(CorpusTables):
    """The parts of a corpus with their documents numbered. It needs 8 bytes of memory per part."""

    def __init__(self, corpus: Path, parts: Path, against: list[str] | None = None) -> None:
        """Read the list of parts (`["source/00000", ...]`).

        Raises:
            InputError: the list or a manifest is missing, tables of a part differ in length, or a source has more bad
                rows than its `max_bad_share` allows. Ingest reads one part only, so the whole source is checked here.
        """
        super().__init__(corpus, against)
        own = read_part_names(parts)
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
                        f"the table has {found} rows, but the raw shard has {manifest['rows']} documents",
                        where=str(self.path(folder, part)),
                        expected="one row per document of the raw shard; delete this file and run the workflow again,"
                        " so that the shard is measured and judged again",
                    )
        self.bounds: Nodes = np.cumsum([0, *rows], dtype=np.int64)
        """int64 [parts + 1]: the nodes of part i are bounds[i] to bounds[i + 1] - 1."""

    @property
    def documents(self) -> int:
        """Number of documents of all parts."""
        return int(self.bounds[-1])

    def start(self, part: str) -> int:
        """Return the node of a part's first document."""
        return int(self.bounds[self.parts.index(part)])

    def take(self, folder: str, columns: list[str], nodes: Nodes) -> pa.Table:
        """Return the rows of the sorted `nodes` from the tables in `folder`. Raises InputError for a damaged table."""
        pieces = [
            read_table(self.path(folder, self.parts[number]), columns).take(pa.array(rows))
            for number, rows in self._by_part(nodes)
        ]
        if not pieces:
            return read_table(self.path(folder, self.parts[0]), columns).slice(0, 0)
        return pa.concat_tables(pieces)

    def texts(self, nodes: Nodes) -> Iterator[pa.RecordBatch]:
        """Yield the columns `text` and `language` of the sorted `nodes` in batches.

        Row groups without any of these nodes are not read.
        """
        for number, rows in self._by_part(nodes):
            yield from read_rows(self.text_path(self.parts[number]), rows, ["text", "language"])

    def _by_part(self, nodes: Nodes) -> Iterator[tuple[int, Nodes]]:
        """Yield (number of the part, rows in the part) for each part that contains any of the sorted `nodes`."""
        cuts = np.searchsorted(nodes, self.bounds)
        for number in np.flatnonzero(np.diff(cuts)):
            yield int(number), nodes[cuts[number] : cuts[number + 1]] - self.bounds[number]

    def spans(self, nodes: Nodes) -> dict[str, list[int]]:
        """Return `{part: [first, end]}` for the parts that contain any of the sorted `nodes`.

        The documents of a part are `nodes[first:end]`.
        """
        cuts = np.searchsorted(nodes, self.bounds).tolist()
        return {
            part: [cuts[number], cuts[number + 1]]
            for number, part in enumerate(self.parts)
            if cuts[number] < cuts[number + 1]
        }


def _refuse_bad_sources(parts: list[str], counts: list[dict[str, Any]]) -> None:
    """Raise InputError if the share of bad rows of a source exceeds its limit over all parts of the source."""
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
                f"{bad} of {rows} rows are bad ({100 * bad / rows:.2f} %, but max_bad_share allows"
                f" {100 * limits[source]:.2f} %); the most frequent reasons: {most}",
                where=f"sources[{source}]",
                expected=f"fewer bad rows: correct the rows that corpus/quarantine/{source}/ lists, or increase"
                " max_bad_share",
            )
