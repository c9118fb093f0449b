"""Pre-token counts of all shards, summed and weighted by the mixture: what the BPE trainer is given.

Arithmetic. Let B(l) be the bytes of language l's pre-tokens (sum of count x length) and w(l) its weight in the mixture.
(Where a language is mixed by source, each of its sources stands for itself below, as a dataset of its own.)
Training should see each language in proportion to its weight, as if it had been sampled by bytes (BLOOM's way), so the
counts of l are multiplied by

    f(l) = w(l) * S / B(l),        S = max over l of B(l) / w(l).

With this S the least factor is 1: the language that the mixture cuts most keeps its true counts, all others are scaled
up, and rounding (to the nearest integer, at least 1) never loses a piece nor flattens a tail. S bounds the sum of all
weighted bytes, hence every pair count: 484 GB at weight 0.06 gives 8e12, far below 2^63; S above 2^60 (absurd weights)
is cut to 2^60. Factors are exact fractions rounded once to float64, so the result does not depend on any order.

Memory does not grow with the tables (`sums.py`): factors are known once all are read, weighted pieces are a stream.
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
from data_prep.tokenizer.count_tables import CountTable, read_batches
from data_prep.tokenizer.sums import RUN_SCHEMA, Sums, starts
from data_prep.tokenizer.vocabulary import SPECIAL_PATTERN

MAX_BYTES = 1 << 62
MAX_WEIGHTED_BYTES = 1 << 60

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CountedPieces:
    """Counts of all tables: their sums, and the bytes of each dataset (a language where there is no mixture)."""

    sums: Sums
    names: list[str] = field(default_factory=list)
    """Name of each dataset, by its number in the sums."""
    bytes: dict[str, int] = field(default_factory=dict)
    """Sum of count x length, by name."""

    def read(self, tables: Sequence[CountTable], mixture: Mixture | None) -> None:
        """Sum the tables. Raises InputError for bad ones, and for counts that overflow 64 bits."""
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
            # No overflow: the sum over the whole batch is below 2^62.
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
    return InputError("the counts overflow 64 bits", where=where, expected="less than 2^62 bytes of text in all")


def language_factors(language_bytes: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, float]:
    """f(l) of the module's docstring, for the languages with bytes and weight; the others are left out."""
    used = {code: size for code, size in language_bytes.items() if size > 0 and weights.get(code, 0.0) > 0}
    if not used:
        return {}
    scale = max(size / Fraction(weights[code]) for code, size in used.items())
    # Plain weights need not add up to one.
    total = sum((Fraction(weights[code]) for code in used), Fraction())
    scale = min(scale, MAX_WEIGHTED_BYTES / total)
    return {code: float(Fraction(weights[code]) * scale / size) for code, size in sorted(used.items())}


@dataclass(frozen=True)
class WeightedPieces:
    """Different pieces in the order of their bytes, with integer weighted counts, each at least 1; in parts."""

    counted: CountedPieces
    factors: dict[str, float]
    """Multiplier per dataset; what has none is left out."""

    @classmethod
    def of(cls, counted: CountedPieces, weights: Mapping[str, float] | None) -> WeightedPieces:
        """Weighted as the mixture says; without weights the counts are taken as they are.

        Raises InputError when nothing is left to train on.
        """
        sizes = counted.bytes
        factors = dict.fromkeys(sorted(sizes), 1.0) if weights is None else language_factors(sizes, weights)
        if not factors:
            wanted = "counted text" if weights is None else "text in a language of the mixture"
            named = f" ({', '.join(sorted(weights)) or 'which is empty'})" if weights is not None else ""
            raise InputError("no pre-tokens to train on", expected=wanted + named)
        return cls(counted, factors)

    def __iter__(self) -> Iterator[tuple[pa.Array, Integers]]:
        """Pieces (large_binary) and their counts, part by part, as often as wanted."""
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
    """Cut special tokens' spellings out of pieces, so that no merged token can spell one (HTML has `<s>`, `</s>`).

    A merged token is part of some piece; where no piece holds the spelling, none can become it.
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
