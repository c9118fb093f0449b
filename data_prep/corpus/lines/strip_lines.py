"""Strip: write the documents of a shard without the repeated lines of their source. All rows stay, in the same order.

A line is removed together with its line end. Indentation, blank lines and all other bytes stay. Documents of the
language `code` are not changed. A document with only white space left keeps its row. Later the stage `judge`
removes the document by the rule `empty`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress
from bloomery.config.stages import LinesStage
from data_prep.corpus import _text
from data_prep.corpus.columns import flags_of, language_salts, text_buffers
from data_prep.corpus.lines.count_lines import Hashes
from data_prep.corpus.lines.find_repeated_lines import lines_path, read_repeated, repeated_path
from data_prep.corpus.partitioned_tables import read_runs
from data_prep.formats.shard import DOCUMENT_SCHEMA, TableWriter, iterate_batches, read_manifest

_TEXT = DOCUMENT_SCHEMA.get_field_index("text")


def strip_lines(stage: LinesStage, shard: Path, corpus: Path, output: Path) -> dict[str, Any]:
    """Write the documents of `shard` to the shard `output`, without the repeated lines of their source.

    Return the manifest. It has, per language, the number of documents, their remaining bytes, the number of removed
    lines, their bytes, and the number of changed documents.

    Raises:
        InputError: an input is missing or damaged, or the lines were counted from another shard.
    """
    manifest = read_manifest(shard)
    part = f"{shard.parent.name}/{shard.stem}"
    counted = read_manifest(lines_path(corpus, part))
    if counted["inputs"]["documents"] != manifest["file"]["digest"]:
        raise InputError(
            f"the lines in this table were counted in another version of the shard {part}",
            where=str(lines_path(corpus, part)),
            expected="the lines of the present shard; delete this file and run the workflow again",
        )
    tables = [repeated_path(corpus, partition) for partition in range(stage.partitions)]
    repeated = _repeated_in(part, corpus, tables)
    tally = _Tally()
    with (
        TableWriter.open(output, DOCUMENT_SCHEMA) as writer,
        Progress(f"strip {part}", manifest["rows"]) as bar,
    ):
        for batch in iterate_batches(shard):
            stripped, removed = strip_batch(stage, batch, repeated)
            tally.add(batch, stripped, removed)
            writer.write(stripped)
            bar.advance(batch.num_rows)
    return writer.manifest(
        kind="documents",
        inputs={"documents": manifest["file"]["digest"]}
        | {f"repeated_lines/{path.stem}": read_manifest(path)["file"]["digest"] for path in tables},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts=tally.counts(),
    )


def strip_batch(
    stage: LinesStage, batch: pa.RecordBatch, repeated: Hashes
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """Return the batch without the lines in the sorted `repeated`, and the number of lines removed per document.

    The numbers are int64 [n].
    """
    data, offsets = text_buffers(batch["text"])
    untouched = flags_of(batch["language"], stage.untouched)
    salts = language_salts(batch["language"])
    text, bounds, removed = _text.remove_lines(data, offsets, salts, untouched, stage.min_characters, repeated)
    texts = pa.LargeStringArray.from_buffers(len(removed), pa.py_buffer(bounds), pa.py_buffer(text))
    return batch.set_column(_TEXT, DOCUMENT_SCHEMA.field(_TEXT), texts), removed


def removed_lines(before: str, after: str) -> list[str]:
    """Return the lines that strip removed from the text `before`, in order. `after` is the stripped text."""
    left = after.split("\n")[::-1]
    gone = []
    for line in before.split("\n"):
        # If the end of a text was stripped, its new last line has lost its line end, carriage return included.
        if left and line.removesuffix("\r") == left[-1].removesuffix("\r"):
            left.pop()
        else:
            gone.append(line.removesuffix("\r"))
    return gone


def _repeated_in(part: str, corpus: Path, tables: list[Path]) -> Hashes:
    """Return the sorted hashes of the repeated lines that occur in the part.

    They are few, however large the corpus is.
    """
    found = [np.empty(0, np.uint64)]
    for partition, table in enumerate(tables):
        for run in read_runs(lines_path(corpus, part), partition, ["line"]):
            own = np.sort(run["line"].to_numpy())
            for block in read_repeated(table, part.split("/")[0]):
                place = np.minimum(np.searchsorted(own, block), len(own) - 1)
                found.append(block[own[place] == block])
    return np.unique(np.concatenate(found))


class _Tally:
    """Counts, per language, the documents, their remaining bytes, and the removed lines and bytes."""

    def __init__(self) -> None:
        self._languages: dict[str, Counter[str]] = {}

    def add(self, before: pa.RecordBatch, after: pa.RecordBatch, removed: npt.NDArray[np.int64]) -> None:
        """Count the documents of a batch."""
        encoded = before["language"].dictionary_encode()
        codes = np.asarray(encoded.indices)
        left = np.asarray(pc.binary_length(after["text"]), np.int64)
        went = np.asarray(pc.binary_length(before["text"]), np.int64) - left
        for number, language in enumerate(encoded.dictionary.to_pylist()):
            mine = codes == number
            self._languages.setdefault(language, Counter()).update(
                documents=int(mine.sum()),
                bytes=int(left[mine].sum()),
                lines_removed=int(removed[mine].sum()),
                line_bytes_removed=int(went[mine].sum()),
                documents_changed=int((removed[mine] > 0).sum()),
            )

    def counts(self) -> dict[str, Any]:
        """Return the counts for the manifest: totals, and the same numbers per language."""
        names = ("documents", "bytes", "lines_removed", "line_bytes_removed", "documents_changed")
        total = sum(self._languages.values(), Counter[str]())
        return {name: total[name] for name in names} | {
            "languages": {
                language: {name: count[name] for name in names} for language, count in sorted(self._languages.items())
            }
        }
