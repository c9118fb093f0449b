"""Sum the pre-token counts of all tables for a report, in bounded memory."""

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
from data_prep.tokenizer.find_count_tables import CountTable, described, pre_tokenizer_of, read_batches
from data_prep.tokenizer.pre_tokenizer import recognise
from data_prep.tokenizer.sums import RUN_SCHEMA, Sums
from data_prep.tokenizer.vocabulary import SPECIAL_PATTERN

MOST_PIECES = 1_000_000
"""Maximum number of pieces on which a language's own tokenizer is trained. The most frequent pieces are used. A piece
takes at most about 50 bytes, so 46 languages with one million pieces each take 2.3 GB."""
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """Sums of the counts per piece and language."""

    sums: Sums
    languages: list[str] = field(default_factory=list)
    """Codes of the languages; the index is the language's number in the sums."""

    @classmethod
    def read(cls, tables: Sequence[CountTable], folder: Path) -> Counts:
        """Sum the tables. Counts that do not fit into memory go to a temporary file in `folder`.

        Raises InputError if a table is missing, damaged or wrong.
        """
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
        """Yield batches of the sums: unique pieces (text), and three arrays with one entry per row of the sums.

        For each row, the arrays hold the index of the piece in the batch, the number of the language, and the count.
        Raises InputError if a piece is not UTF-8.
        """
        for table in self.sums:
            pieces = table["piece"].combine_chunks().dictionary_encode()
            pieces = pieces.combine_chunks() if isinstance(pieces, pa.ChunkedArray) else pieces
            try:
                texts = pieces.dictionary.cast(pa.large_string())
            except pa.ArrowInvalid as error:
                raise InputError(
                    "a pre-token is not UTF-8 text",
                    where="the tables of pre-token counts",
                    expected="UTF-8 text in the column 'piece', as `bloomery tokenizer count` writes it",
                ) from error
            rows, languages = np.asarray(pieces.indices, np.int64), np.asarray(table["dataset"], np.int64)
            yield texts, rows, languages, np.asarray(table["count"])

    def by_language(self) -> dict[str, pa.Table]:
        """Return a table (piece, count) of each language's `MOST_PIECES` most frequent pieces, by language code.

        Pieces that contain the text of a special token are left out.
        """
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
    """Return whether the counts in the tables are valid for a tokenizer. If not, log the reason.

    They are valid if they were counted with the tokenizer's pre-tokenizer, and if the tokenizer has no normaliser.

    Args:
        tables: count tables. Tables without a recorded pre-tokenizer are assumed to fit.
        description: content of the tokenizer's tokenizer.json.

    Raises:
        InputError: if the tables were counted with different pre-tokenizers.
    """
    preset, counted = recognise(description), pre_tokenizer_of(tables)
    if preset is None or description.get("normalizer") is not None:
        say(
            "the pre-token counts are not used, because the tokenizer has a normaliser, or a pre-tokenizer other than "
            "Bloomery's presets; the uses of tokens are counted in the sample"
        )
        return False
    if counted is not None and counted != preset:
        say(
            f"the pre-token counts are not used, because they were made with the pre-tokenizer {described(counted)}, "
            f"but the tokenizer uses {described(preset)}; for exact numbers of uses, count the pre-tokens again with "
            f"{described(preset)} (bloomery tokenizer count)"
        )
        return False
    return True
