"""Compiled text kernel (``csrc/text``): batches of UTF-8 documents in, numbers out. Every call releases the GIL.

``data`` is any contiguous bytes-like object, such as a ``pyarrow.Buffer``; document ``i`` is
``data[offsets[i]:offsets[i + 1]]``. ``unspaced[i] != 0`` says that the document's language writes no spaces between
words: then each letter of Han, Kana, Bopomofo, Yi, Thai, Lao, Khmer, Myanmar or Tibetan (with its marks) is a word.
Malformed UTF-8 counts as U+FFFD. All functions raise ``ValueError`` for offsets that fall or leave ``data``, for
arrays of another length, and for parameters out of range.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

UNICODE_VERSION: str
"""Version of the Unicode Character Database behind the categories, such as "14.0.0"."""

SCRIPTS: tuple[str, ...]
"""What letters count as: Unicode's names of the scripts of ROOTS' languages and of some neighbours, `Kana`, `Other`."""

SCOPE_CHARACTERS: int
"""Repetition of characters and words, and listed words, are those of so many characters from the start."""

class WordLists:
    """Stop words and flagged words of several languages, by number from 0."""

    def __init__(self, lists: Sequence[tuple[Sequence[str], Sequence[str], bool]]) -> None:
        """Of each language: stop words, flagged words, and whether it is unspaced.

        An entry is a word or a phrase of up to 8; all its words are looked for as ``shingles`` compares them: case,
        apostrophes and joiners do not count, marks do. Raises ``ValueError`` for an entry of no or of too many words.
        """

def measure(
    data: Buffer,
    offsets: NDArray[np.int64],
    unspaced: NDArray[np.uint8],
    lists: WordLists | None = None,
    numbers: NDArray[np.int32] | None = None,
) -> dict[str, NDArray[Any]]:
    """All statistics of each document: arrays of shape (n,), by name; 0 where a ratio has nothing to divide by.

    ``numbers[i]`` says which of ``lists`` are document i's; -1: none, and its ratios of listed words are 0.

    int64: ``characters`` (code points), ``bytes``, ``words``, ``lines`` (not blank). float64: ``mean_word_length``,
    ``character_repetition_ratio`` and ``word_repetition_ratio`` (ROOTS: character 10-grams, word 5-grams),
    ``special_ratio``, ``digit_ratio`` and ``replacement_ratio`` (of characters), ``alphabetic_word_ratio`` (of words),
    ``short_line_ratio``, ``terminal_punctuation_ratio`` and ``bullet_ratio`` (of lines), ``duplicate_line_ratio``
    (characters in second and later copies of a line, of characters without newlines: FineWeb), ``newline_ratio``
    (newlines a word); Gopher's ``duplicate_line_fraction``, ``duplicate_paragraph_fraction``,
    ``duplicate_paragraph_ratio``, ``top_<2..4>gram_ratio``, ``duplicate_<5..10>gram_ratio``, ``hash_ratio``,
    ``ellipsis_ratio``, ``ellipsis_line_ratio``, int64 ``paragraphs``; C4's ``few_word_line_ratio`` and int64
    ``curly_brackets``; int64 ``longest_line``, float64 ``mean_line_length``, ``indentation_ratio`` and
    ``alphanumeric_ratio`` (of characters), ``stop_word_ratio`` and ``flagged_word_ratio`` (of words); float64
    ``scripts`` of shape (n, len(SCRIPTS)), shares of letters that have a
    script. ``csrc/README.md`` has the definitions.
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

def line_hashes(
    data: Buffer,
    offsets: NDArray[np.int64],
    salts: NDArray[np.uint64],
    untouched: NDArray[np.uint8],
    min_characters: int,
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """(hashes, contents) of the lines of each document in turn, sorted within a document and each once.

    ``contents`` repeats, for each line, a hash of its document's content: copies of a document have the same one, and
    white space at the ends of lines and blank lines do not count.

    A line ends with a newline; white space at its ends is not part of it. Lines of fewer than ``min_characters`` (at
    least 1) and documents with ``untouched[i] != 0`` have no hash. Lines are compared by their bytes: two different
    ones have the same hash with odds of 2^-64, and so have equal ones in documents of different ``salts``.
    """

def remove_lines(
    data: Buffer,
    offsets: NDArray[np.int64],
    salts: NDArray[np.uint64],
    untouched: NDArray[np.uint8],
    min_characters: int,
    repeated: NDArray[np.uint64],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The documents without the lines whose hash is in the sorted ``repeated``: (data, offsets, lines removed).

    A line goes with its line end; the last one, where it has none, with the line end before it. Other bytes all stay.
    ``lines removed`` counts copies within a document too.
    """

def normal_forms(data: Buffer, offsets: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64], NDArray[np.uint8]]:
    """The documents with every run of white space as one space, none at their ends: (data, offsets, settled).

    ``settled[i] != 0`` says that document i is in Unicode's composed form (NFC) as it stands; any other has to be
    looked at, such as one with decomposed letters. White space is what ``str.isspace`` says.
    """

def jaccard(
    values: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Jaccard similarity [n] of the documents ``left[i]`` and ``right[i]``; 0 where neither has a shingle.

    The sorted, different shingles of document d are ``values[bounds[d]:bounds[d + 1]]``, as ``shingles`` gives them.
    """
