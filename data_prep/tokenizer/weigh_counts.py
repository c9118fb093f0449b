"""Sum the pre-token counts of all shards and weight them by the mixture, as input of the BPE trainer.

Arithmetic. Let B(l) be the bytes of language l's pre-tokens (sum of count x length) and w(l) its weight in the mixture.
If the mixture weights the sources of a language, each source is a dataset of its own, and l below is that dataset.
Training should see each language in proportion to its weight, as if text had been sampled by bytes, as for BLOOM.
Therefore the counts of l are multiplied by

    f(l) = w(l) * S / B(l),        S = max over l of B(l) / w(l).

With this S, the smallest factor is 1. The language whose share the mixture reduces most keeps its counts, and all other
counts are scaled up. Rounding (to the nearest integer, at least 1) therefore never loses a piece and never makes rare
pieces equally frequent. S is an upper bound for the sum of all weighted bytes, and therefore for every pair count. For
example, 484 GB at weight 0.06 give S = 8e12, far below 2^63. The sum of all weighted bytes is limited to 2^60, which
matters only for extreme weights. Factors are exact fractions that are rounded once to float64, so the result does not
depend on the order of the tables.

Memory does not grow with the tables (see `sums.py`). The factors are known when all tables have been read, and the
weighted pieces are streamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.errors import InputError
from bloomery.base.progress import track
from data_prep.formats.mixture import Mixture
from data_prep.tokenizer.find_count_tables import CountTable, read_batches
from data_prep.tokenizer.sums import RUN_SCHEMA, Sums, starts
from data_prep.tokenizer.vocabulary import SPECIAL_PATTERN

MAX_BYTES = 1 << 62
MAX_WEIGHTED_BYTES = 1 << 60

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CountedPieces:
    """Sums of the counts of all tables, and the number of bytes of each dataset.

    Without a mixture, each language is a dataset.
    """

    sums: Sums
    names: list[str] = field(default_factory=list)
    """Names of the datasets; the index is the dataset's number in the sums."""
    bytes: dict[str, int] = field(default_factory=dict)
    """Bytes of each dataset's pre-tokens (sum of count x length), by dataset name."""

    def read(self, tables: Sequence[CountTable], mixture: Mixture | None) -> None:
        """Sum the counts of the tables.

        Raises:
            InputError: if a table is missing, damaged or empty without a manifest, lacks a column, or has a column of a
                wrong type, nulls or negative counts. Also if the counts overflow 64 bits.
        """
        for table in track(tables, "sum pre-token counts", len(tables), "tables"):
            for batch in read_batches(table):
                self._add(batch, table, mixture)
        self.sums.finish()

    def _add(self, batch: pa.RecordBatch, table: CountTable, mixture: Mixture | None) -> None:
        languages = batch.column("language").dictionary_encode()
        named = [
            code if mixture is None else mixture.dataset(code, table.source)
            for code in languages.dictionary.to_pylist()
        ]
        numbers = np.array([self._number(name) for name in named], np.int32)[np.asarray(languages.indices)]
        counts = np.asarray(batch.column("count"))
        lengths = np.asarray(pc.binary_length(batch.column("piece")))
        if len(counts) and float(np.dot(lengths.astype(np.float64), counts)) > MAX_BYTES:
            raise _overflow(str(table.path))
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            # This int64 product cannot overflow, because the whole batch counts at most MAX_BYTES bytes (checked
            # above).
            self.bytes[self.names[number]] += int(lengths[chosen] @ counts[chosen])
        if sum(self.bytes.values()) > MAX_BYTES:
            raise _overflow(str(table.path))
        rows = pa.table([batch.column("piece"), pa.array(numbers), batch.column("count")], schema=RUN_SCHEMA)
        self.sums.add(_without_specials(rows))

    def _number(self, name: str) -> int:
        if name not in self.bytes:
            self.bytes[name] = 0
            self.names.append(name)
        return self.names.index(name)


def _overflow(where: str) -> InputError:
    return InputError(
        "the counts overflow 64 bits", where=where, expected="less than 2^62 bytes of text in all count tables"
    )


def language_factors(language_bytes: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the factor f(l) of the module's docstring for each language that has bytes and a weight above 0."""
    used = {code: size for code, size in language_bytes.items() if size > 0 and weights.get(code, 0.0) > 0}
    if not used:
        return {}
    scale = max(size / Fraction(weights[code]) for code, size in used.items())
    # Weights from a file need not add up to one, so all weighted bytes add up to scale * total.
    total = sum((Fraction(weights[code]) for code in used), Fraction())
    scale = min(scale, MAX_WEIGHTED_BYTES / total)
    return {code: float(Fraction(weights[code]) * scale / size) for code, size in sorted(used.items())}


@dataclass(frozen=True)
class WeightedPieces:
    """Unique pieces in byte order, with weighted counts. Iteration yields several batches of pieces.

    A weighted count is an integer of at least 1.
    """

    counted: CountedPieces
    factors: dict[str, float]
    """Multiplier per dataset. Datasets without a multiplier are not yielded."""

    @classmethod
    def of(cls, counted: CountedPieces, weights: Mapping[str, float] | None) -> WeightedPieces:
        """Return the pieces weighted by `weights`, or with unchanged counts if `weights` is None.

        Raises InputError if no pieces remain to train on.
        """
        sizes = counted.bytes
        factors = dict.fromkeys(sorted(sizes), 1.0) if weights is None else language_factors(sizes, weights)
        if not factors:
            wanted = "tables with counts" if weights is None else "counts of a language or dataset of the mixture"
            named = f" ({', '.join(sorted(weights)) or 'the mixture is empty'})" if weights is not None else ""
            raise InputError("there are no pre-tokens to train on", where="--counts", expected=wanted + named)
        return cls(counted, factors)

    def __iter__(self) -> Iterator[tuple[pa.Array, Integers]]:
        """Yield batches of pieces (large_binary) with their weighted counts. Iteration can be repeated."""
        factors = np.array([self.factors.get(name, np.nan) for name in self.counted.names])
        for table in self.counted.sums:
            dataset = np.asarray(table["dataset"])
            used = ~np.isnan(factors[dataset])
            if not used.all():
                table, dataset = table.filter(pa.array(used)), dataset[used]
            if not table.num_rows:
                continue
            factor, count = factors[dataset], np.asarray(table["count"])
            weighted = np.where(factor == 1.0, count, np.rint(count * factor).astype(np.int64))
            first = starts(table["piece"])
            pieces = table["piece"].filter(pa.array(first)).combine_chunks()
            yield _one_array(pieces), np.add.reduceat(np.maximum(weighted, 1), np.flatnonzero(first))


def _one_array(pieces: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pieces.chunk(0) if isinstance(pieces, pa.ChunkedArray) else pieces


def _without_specials(rows: pa.Table) -> pa.Table:
    """Cut the text of special tokens out of pieces, so that no merged token can equal a special token.

    HTML text contains `<s>` and `</s>`, for example. Every merged token is part of a piece. If no piece contains the
    text of a special token, no merged token can equal it.
    """
    holds = pc.match_substring_regex(rows["piece"], SPECIAL_PATTERN)
    if not pc.any(holds).as_py():
        return rows
    affected = rows.filter(holds)
    parts = pc.split_pattern_regex(affected["piece"], SPECIAL_PATTERN).combine_chunks()
    parents = pc.list_parent_indices(parts)
    cut = [pc.list_flatten(parts), affected["dataset"].take(parents), affected["count"].take(parents)]
    table = pa.table(cut, schema=RUN_SCHEMA)
    return pa.concat_tables(
        [rows.filter(pc.invert(holds)), table.filter(pc.greater(pc.binary_length(table["piece"]), 0))]
    )
