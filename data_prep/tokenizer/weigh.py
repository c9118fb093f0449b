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

Memory: shards are added until `PENDING_ROWS` rows wait, then summed; the peak is about 100 bytes a unique piece (8 M
pieces: below 1 GB) plus the pending rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.errors import InputError
from bloomery.base.progress import track
from bloomery.contracts.mixture import Mixture
from bloomery.contracts.shard import read_table
from data_prep.tokenizer.count import COUNT_SCHEMA
from data_prep.tokenizer.vocabulary import SPECIAL_PATTERN

PENDING_ROWS = 20_000_000
MAX_WEIGHTED_BYTES = 1 << 60


@dataclass(frozen=True)
class WeightedPieces:
    """Unique pieces, sorted, with integer weighted counts.

    `pieces` the bytes laid end to end, `offsets` int64 [n + 1], `counts` int64 [n], each at least 1; `factors` the
    multiplier per language, `language_bytes` its true bytes.
    """

    pieces: pa.Buffer
    offsets: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    factors: dict[str, float]
    language_bytes: dict[str, int]


def sum_counts(tables: list[Path], mixture: Mixture | None = None, sources: Sequence[str] = ()) -> pa.Table:
    """Sum of count tables, columns language, piece (large_string), count; sorted by (language, piece).

    With a mixture, `language` is the name of its dataset; `sources` then holds the source of each table.
    """
    schema = pa.schema([("language", pa.string()), ("piece", pa.large_string()), ("count", pa.int64())])
    total, pending, rows = schema.empty_table(), [], 0
    for number, path in enumerate(track(tables, "sum pre-token counts", len(tables), "shards")):
        table = read_table(path)
        if table.schema.names != COUNT_SCHEMA.names:
            raise InputError(f"columns {table.schema.names}", where=str(path), expected=str(COUNT_SCHEMA.names))
        table = table.cast(schema)
        pending.append(table if mixture is None else _by_dataset(table, mixture, sources[number]))
        rows += table.num_rows
        if rows > PENDING_ROWS:
            total, pending, rows = _summed([total, *pending]), [], 0
    return _summed([total, *pending]).sort_by([("language", "ascending"), ("piece", "ascending")])


def _by_dataset(table: pa.Table, mixture: Mixture, source: str) -> pa.Table:
    codes = table["language"].combine_chunks().dictionary_encode()
    names = pa.array([mixture.dataset(code, source) for code in codes.dictionary.to_pylist()], pa.string())
    return table.set_column(0, "language", names.take(codes.indices))


def _summed(tables: list[pa.Table]) -> pa.Table:
    grouped = pa.concat_tables(tables).group_by(["language", "piece"]).aggregate([("count", "sum")])
    return grouped.select(["language", "piece", "count_sum"]).rename_columns(["language", "piece", "count"])


def language_factors(language_bytes: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, float]:
    """f(l) of the module's docstring, for the languages with bytes and weight; the others are left out."""
    used = {code: size for code, size in language_bytes.items() if size > 0 and weights.get(code, 0.0) > 0}
    if not used:
        return {}
    scale = max(size / Fraction(weights[code]) for code, size in used.items())
    scale = min(scale, Fraction(MAX_WEIGHTED_BYTES))
    return {code: float(Fraction(weights[code]) * scale / size) for code, size in sorted(used.items())}


def weighted_pieces(table: pa.Table, weights: Mapping[str, float]) -> WeightedPieces:
    """Apply the mixture's weights (per name in the column `language`) to `sum_counts`' table.

    Raises InputError when nothing is left to train on.
    """
    byte_counts = pc.multiply(pc.binary_length(table["piece"]), table["count"])
    sums = (
        pa.table({"language": table["language"], "bytes": byte_counts})
        .group_by("language")
        .aggregate([("bytes", "sum")])
    )
    language_bytes = dict(sorted(zip(sums["language"].to_pylist(), sums["bytes_sum"].to_pylist(), strict=True)))
    factors = language_factors(language_bytes, weights)
    if not factors:
        raise InputError(
            "no pre-tokens to train on",
            expected=f"text in a language of the mixture ({', '.join(sorted(weights)) or 'which is empty'})",
        )
    table = _without_specials(table.filter(pc.is_in(table["language"], pa.array(sorted(factors)))))
    codes = table["language"].combine_chunks().dictionary_encode()
    per_code = np.array([factors[code] for code in codes.dictionary.to_pylist()])
    weighted = np.rint(np.asarray(table["count"]) * per_code[np.asarray(codes.indices)]).astype(np.int64)
    merged = (
        pa.table({"piece": table["piece"], "count": np.maximum(weighted, 1)})
        .group_by("piece")
        .aggregate([("count", "sum")])
        .sort_by("piece")
        .combine_chunks()
    )
    pieces = merged["piece"].combine_chunks()
    if isinstance(pieces, pa.ChunkedArray):
        pieces = pieces.chunk(0)
    offsets = np.frombuffer(pieces.buffers()[1], dtype=np.int64)[pieces.offset : pieces.offset + len(pieces) + 1]
    return WeightedPieces(
        pieces.buffers()[2], offsets, np.asarray(merged["count_sum"], dtype=np.int64), factors, language_bytes
    )


def _without_specials(table: pa.Table) -> pa.Table:
    """Cut special tokens' spellings out of pieces, so that no merged token can spell one (HTML has `<s>`, `</s>`).

    A merged token is part of some piece; where no piece holds the spelling, none can become it.
    """
    holds = pc.match_substring_regex(table["piece"], SPECIAL_PATTERN)
    if not pc.any(holds).as_py():
        return table
    affected = table.filter(holds)
    parts = pc.split_pattern_regex(affected["piece"], SPECIAL_PATTERN).combine_chunks()
    rows = pc.list_parent_indices(parts)
    cut = pa.table(
        [affected["language"].take(rows), pc.list_flatten(parts), affected["count"].take(rows)], schema=table.schema
    )
    return pa.concat_tables([table.filter(pc.invert(holds)), cut.filter(pc.greater(pc.binary_length(cut["piece"]), 0))])
