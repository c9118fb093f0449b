"""Pre-token counts as a report reads them: summed over all tables, piece by piece, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.errors import InputError
from bloomery.base.progress import say, track
from data_prep.tokenizer.count_tables import CountTable, described, pre_tokenizer_of, read_batches
from data_prep.tokenizer.pre_tokenizer import recognise
from data_prep.tokenizer.sums import RUN_SCHEMA, Sums
from data_prep.tokenizer.vocabulary import SPECIAL_PATTERN

MOST_PIECES = 1_000_000
"""Pieces of a language that its own tokenizer is trained on, the most frequent: at most 50 bytes each, 2.3 GB for 46
languages that all have as many."""
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """Sums per piece and language."""

    sums: Sums
    languages: list[str] = field(default_factory=list)
    """Code of each language, by its number in the sums."""

    @classmethod
    def read(cls, tables: Sequence[CountTable], folder: Path) -> Counts:
        """The sum of the tables; what does not fit into memory goes to files in `folder`. Raises InputError."""
        counts = cls(Sums(folder))
        numbers: dict[str, int] = {}
        for table in track(tables, "sum pre-token counts", len(tables), "tables"):
            for batch in read_batches(table):
                codes = batch.column("language").dictionary_encode()
                own = [numbers.setdefault(code, len(numbers)) for code in codes.dictionary.to_pylist()]
                dataset = pa.array(np.array(own, np.int32)[np.asarray(codes.indices)])
                counts.sums.add(pa.table([batch.column("piece"), dataset, batch.column("count")], schema=RUN_SCHEMA))
        counts.sums.finish()
        counts.languages.extend(numbers)
        return counts

    def __iter__(self) -> Iterator[tuple[pa.Array, Integers, Integers, Integers]]:
        """Different pieces (text), and rows in their order: number of the piece, number of the language, count."""
        for table in self.sums:
            pieces = table["piece"].combine_chunks().dictionary_encode()
            pieces = pieces.combine_chunks() if isinstance(pieces, pa.ChunkedArray) else pieces
            try:
                texts = pieces.dictionary.cast(pa.large_string())
            except pa.ArrowInvalid as error:
                raise InputError(f"a piece is not UTF-8 ({error})", where="the pre-token counts") from error
            rows, languages = np.asarray(pieces.indices, np.int64), np.asarray(table["dataset"], np.int64)
            yield texts, rows, languages, np.asarray(table["count"])

    def by_language(self) -> dict[str, pa.Table]:
        """Each language's most frequent pieces (piece, count), but for those that spell a special token, by code."""
        found: dict[int, list[pa.Table]] = {}
        sizes: dict[int, int] = {}
        for texts, rows, languages, counts in self:
            clean = pc.invert(pc.match_substring_regex(texts, SPECIAL_PATTERN))
            table = pa.table({"piece": texts.take(pa.array(rows)), "count": counts})
            kept = np.asarray(clean.take(pa.array(rows)))
            for number in np.unique(languages).tolist():
                own = table.filter(pa.array((languages == number) & kept))
                found.setdefault(number, []).append(own)
                sizes[number] = sizes.get(number, 0) + own.num_rows
                if sizes[number] > 2 * MOST_PIECES:
                    found[number] = [_most_frequent(pa.concat_tables(found[number]))]
                    sizes[number] = found[number][0].num_rows
        named = {self.languages[number]: _most_frequent(pa.concat_tables(parts)) for number, parts in found.items()}
        return dict(sorted(named.items()))


def _most_frequent(table: pa.Table) -> pa.Table:
    order = [("count", "descending"), ("piece", "ascending")]
    return table.take(pc.sort_indices(table, order)[:MOST_PIECES]).combine_chunks()


def fits(tables: Sequence[CountTable], description: dict[str, Any]) -> bool:
    """Whether the tables count what the tokenizer with this tokenizer.json splits text into; a word why, if not.

    Tables that do not say how they were made are believed. Raises InputError when they contradict each other.
    """
    preset, counted = recognise(description), pre_tokenizer_of(tables)
    if preset is None or description.get("normalizer") is not None:
        say("the tokenizer cuts text in a way of its own, of which the pre-token counts say nothing: they are not used")
        return False
    if counted is not None and counted != preset:
        say(f"the counts are of pieces by {described(counted)}, not by {described(preset)}: they are not used")
        return False
    return True
