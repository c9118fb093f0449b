"""Generate pre-tokens for the tokenizer's benchmarks: unique pieces of several scripts with Zipf-like counts.

Each language has an alphabet, stems and endings, all drawn with Zipf-like frequencies like those of words. A piece is a
stem and an ending; most pieces begin with a space. A character takes one to three bytes, and a piece 8 to 9 bytes on
average. A seed makes the pieces reproducible.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Generator = np.random.Generator

# For each language: its share of the pieces, the first and last character of its alphabet, and the least and greatest
# number of letters in a stem and in an ending.
SCRIPTS = {
    "ar": (0.05, "\u0627", "\u064a", (2, 4), (0, 2)),
    "en": (0.44, "a", "z", (2, 6), (0, 3)),
    "fr": (0.40, "a", "z", (2, 5), (0, 3)),
    "hi": (0.03, "\u0905", "\u0939", (1, 3), (0, 2)),
    "ru": (0.04, "\u0430", "\u044f", (2, 4), (0, 2)),
    "zhs": (0.04, "\u4e00", "\u5dff", (1, 3), (0, 1)),
}
ACCENTED = "éèàêçôîùâëïü"


def zipf_ranks(generator: Generator, kinds: int, size: int, exponent: float = 1.0) -> npt.NDArray[np.int64]:
    """Draw `size` numbers below `kinds`. Number r is drawn with a probability proportional to 1 / (r + 2)^exponent."""
    ends = np.cumsum((np.arange(kinds) + 2.0) ** -exponent)
    ranks: npt.NDArray[np.int64] = np.searchsorted(ends, generator.random(size) * ends[-1])
    return ranks


def words(generator: Generator, alphabet: list[str], number: int, letters: tuple[int, int]) -> pa.Array:
    """Return at most `number` different words, each of `letters[0]` to `letters[1]` letters."""
    lengths = generator.integers(letters[0], letters[1] + 1, number)
    drawn = zipf_ranks(generator, len(alphabet), int(lengths.sum()), 0.7)
    text = "".join(alphabet[letter] for letter in drawn.tolist())
    ends = np.cumsum(lengths).tolist()
    return pa.array(
        dict.fromkeys(text[end - size : end] for end, size in zip(ends, lengths.tolist(), strict=True)), pa.string()
    )


def pieces_of(generator: Generator, language: str, number: int) -> pa.Array:
    """Return `number` different pieces, sorted by their bytes."""
    _, first, last, stem_letters, ending_letters = SCRIPTS[language]
    alphabet = [chr(code) for code in range(ord(first), ord(last) + 1)]
    if language == "fr":
        alphabet += ACCENTED
    generator.shuffle(alphabet)
    stems = words(generator, alphabet, 40_000 + number // 5, stem_letters)
    endings = words(generator, alphabet, 4_000, ending_letters)
    found = pa.array([], pa.large_string())
    while len(found) < number:
        size = number + number // 4
        chosen = [stems.take(zipf_ranks(generator, len(stems), size, 0.6))]
        chosen.append(endings.take(zipf_ranks(generator, len(endings), size, 0.9)))
        space = pa.array(["", " "]).take(pa.array((generator.random(size) < 0.8).astype(np.int64)))
        made = pc.binary_join_element_wise(space, *chosen, "").cast(pa.large_string())
        found = pc.unique(pa.chunked_array([found, made])).drop_null()
    found = found.filter(pc.greater(pc.binary_length(found), 0))[:number]
    return found.take(pc.sort_indices(found))


def counted_pieces(number: int, seed: int = 0) -> pa.Table:
    """Return a count table (language, piece, count) of about `number` pieces, sorted by (language, piece).

    Counts are 1 + floor(log2(c)) for Zipf-distributed c. They are small, so that a trainer which accepts no counts can
    read each piece as often as its count.
    """
    generator = np.random.default_rng(seed)
    tables = []
    for language, (share, *_) in sorted(SCRIPTS.items()):
        pieces = pieces_of(generator, language, round(number * share))
        drawn = np.minimum(generator.zipf(1.6, len(pieces)), 2**40)
        counts = np.frexp(drawn.astype(np.float64))[1].astype(np.int64)
        languages = pa.repeat(language, len(pieces))
        tables.append(pa.table([languages, pieces, counts], names=["language", "piece", "count"]))
    return pa.concat_tables(tables)


def write_pieces(path: Path, number: int, seed: int = 0) -> None:
    """Write `counted_pieces` as Parquet, with row groups of the same size as in real count tables."""
    pq.write_table(counted_pieces(number, seed), path, compression="zstd", row_group_size=16_384)
