"""Compiled text kernel (``csrc/text``): batches of UTF-8 documents in, numbers out. Every call releases the GIL.

``data`` is any contiguous bytes-like object, such as a ``pyarrow.Buffer``; document ``i`` is
``data[offsets[i]:offsets[i + 1]]``. ``unspaced[i] != 0`` says that the document's language writes no spaces between
words: then each letter of Han, Kana, Bopomofo, Yi, Thai, Lao, Khmer, Myanmar or Tibetan (with its marks) is a word.
Malformed UTF-8 counts as U+FFFD. All functions raise ``ValueError`` for offsets that fall or leave ``data``, for
arrays of another length, and for parameters out of range.
"""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

UNICODE_VERSION: str
"""Version of the Unicode Character Database behind the categories, such as "14.0.0"."""

def measure(
    data: Buffer, offsets: NDArray[np.int64], unspaced: NDArray[np.uint8]
) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    """All statistics of each document: arrays of shape (n,), by name; 0 where a ratio has nothing to divide by.

    int64: ``characters`` (code points), ``bytes``, ``words``, ``lines`` (not blank). float64: ``mean_word_length``,
    ``character_repetition_ratio`` and ``word_repetition_ratio`` (ROOTS: character 10-grams, word 5-grams),
    ``special_ratio``, ``digit_ratio`` and ``replacement_ratio`` (of characters), ``alphabetic_word_ratio`` (of words),
    ``short_line_ratio``, ``terminal_punctuation_ratio`` and ``bullet_ratio`` (of lines), ``duplicate_line_ratio``
    (characters in second and later copies of a line, of characters without newlines: FineWeb), ``newline_ratio``
    (newlines a word); Gopher's ``duplicate_line_fraction``, ``duplicate_paragraph_fraction``,
    ``duplicate_paragraph_ratio``, ``top_<2..4>gram_ratio``, ``duplicate_<5..10>gram_ratio``, ``hash_ratio``,
    ``ellipsis_ratio``, ``ellipsis_line_ratio``; int64 ``paragraphs``. ``csrc/README.md`` has the definitions.
    """

def minhash(
    data: Buffer,
    offsets: NDArray[np.int64],
    unspaced: NDArray[np.uint8],
    ngram_words: int,
    ngram_characters: int,
    bands: int,
    rows: int,
    seed: int,
) -> NDArray[np.uint64]:
    """Keys of the LSH bands, shape (n, bands): documents of Jaccard similarity s share one with 1 - (1 - s^rows)^bands.

    The shingles are those of ``shingles``. ``bands * rows`` is at most 65,536; ``seed`` is in [0, 2^64).
    """

def shingles(
    data: Buffer, offsets: NDArray[np.int64], unspaced: NDArray[np.uint8], ngram_words: int, ngram_characters: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Shingle hashes ``values`` and ``bounds``: ``values[bounds[i]:bounds[i + 1]]`` is sorted, unique, never empty.

    A shingle is ``ngram_words`` lower-case words, or ``ngram_characters`` characters of words where unspaced;
    punctuation, symbols, white space and the apostrophes and joiners inside words do not count. A document with fewer
    is one shingle, and one without any word is compared by its characters as they are.
    """
