"""Compiled text kernel (``csrc/text``) for batches of UTF-8 documents. Every call releases the GIL.

``data`` is any contiguous bytes-like object, such as a ``pyarrow.Buffer``. Document ``i`` is
``data[offsets[i]:offsets[i + 1]]``. ``unspaced[i] != 0`` means that the document's language writes no spaces between
words. Then each letter of Han, Kana, Bopomofo, Yi, Thai, Lao, Khmer, Myanmar or Tibetan, with its marks, is a word.
Malformed UTF-8 counts as U+FFFD. All functions raise ``ValueError`` for offsets that decrease or are outside ``data``,
for arrays of the wrong length, and for parameters out of range.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

UNICODE_VERSION: str
"""Version of the Unicode Character Database that defines the character categories, such as "14.0.0"."""

SCRIPTS: tuple[str, ...]
"""Names of the scripts that letters are counted by: Unicode's names for the scripts of ROOTS' languages and of some
neighbouring languages, then `Kana` (Hiragana and Katakana) and `Other`."""

SCOPE_CHARACTERS: int
"""Number of characters from the start of a document in which repetition and listed words are measured."""

class WordLists:
    """Stop words and flagged words of several languages, which are numbered from 0."""

    def __init__(self, lists: Sequence[tuple[Sequence[str], Sequence[str], bool]]) -> None:
        """Take (stop words, flagged words, unspaced) for each language. ``unspaced`` is as in the functions below.

        An entry is a word or a phrase of up to 8 words. Words are compared as in ``shingles``: case, apostrophes and
        joiners are ignored, marks are not. Raises ``ValueError`` for an entry without words or with too many words.
        """

def measure(
    data: Buffer,
    offsets: NDArray[np.int64],
    unspaced: NDArray[np.uint8],
    lists: WordLists | None = None,
    numbers: NDArray[np.int32] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return all measures by name. Each is an array of shape (n,), except ``scripts``. A ratio is 0 if its denominator
    is 0.

    ``numbers[i]`` is the number of the language in ``lists`` for document i. If it is -1, the ratios of listed words
    are 0. ``csrc/README.md`` defines the measures:

    - int64: ``characters`` (code points), ``bytes``, ``words``, ``lines`` (not blank), ``longest_line``
    - float64, of characters: ``special_ratio``, ``digit_ratio``, ``replacement_ratio``, ``indentation_ratio``,
      ``alphanumeric_ratio``
    - float64, of words: ``alphabetic_word_ratio``, ``stop_word_ratio``, ``flagged_word_ratio``, ``newline_ratio``
      (newlines per word)
    - float64, of lines: ``short_line_ratio``, ``terminal_punctuation_ratio``, ``bullet_ratio``
    - float64, means: ``mean_word_length``, ``mean_line_length``
    - ROOTS, float64: ``character_repetition_ratio`` (10-grams), ``word_repetition_ratio`` (5-grams)
    - FineWeb, float64: ``duplicate_line_ratio`` (characters in second and later copies of a line, divided by all
      characters except newlines)
    - Gopher, float64: ``duplicate_line_fraction``, ``duplicate_paragraph_fraction``, ``duplicate_paragraph_ratio``,
      ``top_<2..4>gram_ratio``, ``duplicate_<5..10>gram_ratio``, ``hash_ratio``, ``ellipsis_ratio``,
      ``ellipsis_line_ratio``; int64: ``paragraphs``
    - C4, float64: ``few_word_line_ratio``; int64: ``curly_brackets``
    - float64 of shape (n, len(SCRIPTS)): ``scripts``, the share of each script in the letters that have a script
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
    """Return the keys of the LSH bands of each document, shape (n, bands).

    Two documents of Jaccard similarity s share at least one key with probability 1 - (1 - s^rows)^bands. The keys are
    computed from the shingles of ``shingles``. ``bands * rows`` is at most 65,536; ``seed`` is in [0, 2^64).
    """

def shingles(
    data: Buffer, offsets: NDArray[np.int64], unspaced: NDArray[np.uint8], ngram_words: int, ngram_characters: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the shingle hashes of all documents as (values, bounds).

    The hashes of document i are ``values[bounds[i]:bounds[i + 1]]``: sorted, unique, and at least one. A shingle is
    ``ngram_words`` lower-case words, or ``ngram_characters`` characters of words in an unspaced document. Punctuation,
    symbols, white space, and apostrophes and joiners inside words are ignored. A document that is shorter than one
    shingle is a single shingle. If it has no word at all, that shingle is made from its unchanged characters.
    """

def line_hashes(
    data: Buffer,
    offsets: NDArray[np.int64],
    salts: NDArray[np.uint64],
    untouched: NDArray[np.uint8],
    min_characters: int,
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return (hashes, contents) of the lines of all documents, document by document.

    ``hashes`` are sorted within a document, without repetitions. ``contents`` has, for each line, a hash of the content
    of its document. Copies of a document have the same content hash. Blank lines, and white space at the ends of lines,
    do not change this hash.

    A line ends with a newline. White space at both ends is not part of the line. Lines of fewer than ``min_characters``
    (at least 1) and documents with ``untouched[i] != 0`` have no hash. Lines are compared byte for byte. Two different
    lines have the same hash with probability 2^-64. The same holds for equal lines in documents with different
    ``salts``.
    """

def remove_lines(
    data: Buffer,
    offsets: NDArray[np.int64],
    salts: NDArray[np.uint64],
    untouched: NDArray[np.uint8],
    min_characters: int,
    repeated: NDArray[np.uint64],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return the documents without the lines whose hash is in the sorted ``repeated``: (data, offsets, lines removed).

    A line is removed together with its line end. A last line without a line end is removed together with the line end
    before it. All other bytes stay. ``lines removed`` counts every removed line of a document, copies included.
    """

def normal_forms(data: Buffer, offsets: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64], NDArray[np.uint8]]:
    """Return the documents with every run of white space as one space and none at the ends: (data, offsets, settled).

    ``settled[i] != 0`` means that document i is already in Unicode's composed form (NFC). Any other document, such as
    one with decomposed letters, may need normalisation. White space is every character that ``str.isspace`` accepts.
    """

def jaccard(
    values: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the Jaccard similarity of the documents ``left[i]`` and ``right[i]``, or 0 if neither has a shingle.

    The shingles of document d are ``values[bounds[d]:bounds[d + 1]]``, sorted and unique, as ``shingles`` returns them.
    """
