"""Rank duplicates: the better document has the source of higher priority, then more words, then the smaller id.

Words are counted instead of characters, because more white space does not make a text better. Documents of earlier runs
are better than all documents of this run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.errors import InputError

ID_BYTES = 16
_PRIORITY_BITS, _WORD_BITS, _ID_BITS = 12, 24, 28


def source_ranks(priorities: dict[str, int]) -> dict[str, int]:
    """Return the rank of each source. The highest priority has rank 1, and equal priorities have equal ranks.

    Rank 0 is reserved for documents of earlier runs.

    Raises:
        InputError: there are more different priorities than a rank can hold.
    """
    order = sorted(set(priorities.values()), reverse=True)
    if len(order) >= 1 << _PRIORITY_BITS:
        raise InputError(
            f"the sources have {len(order)} different priorities",
            where="sources[].priority",
            expected=f"fewer than {1 << _PRIORITY_BITS} different priorities; give several sources the same priority",
        )
    return {source: 1 + order.index(priority) for source, priority in priorities.items()}


def source_rank_of(sources: pa.ChunkedArray, ranks: dict[str, int], *, earlier: bool) -> npt.NDArray[np.int64]:
    """Return int64 [n]: the rank of each document's source, or 0 if `earlier` is true."""
    if earlier or not len(sources):
        return np.zeros(len(sources), np.int64)
    encoded = sources.combine_chunks().dictionary_encode()
    values = np.array([ranks[name] for name in encoded.dictionary.to_pylist()], np.int64)
    result: npt.NDArray[np.int64] = values[np.asarray(encoded.indices)]
    return result


def id_words(ids: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return uint64 [n, 2]: the two halves of each hexadecimal id as numbers. They sort like the ids."""
    text = ids.cast(pa.binary()).cast(pa.binary(2 * ID_BYTES))
    array = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    digits = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 2 * ID_BYTES :][: len(array) * 2 * ID_BYTES]
    nibbles = (digits & 15) + 9 * (digits >> 6)
    values = nibbles[::2] << 4 | nibbles[1::2]
    return values.view(">u8").reshape(-1, 2).astype(np.uint64)


def short_rank(
    source_rank: npt.NDArray[np.int64], words: npt.NDArray[np.int64], ids: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Return a rank of each document in 64 bits; smaller is better.

    Among documents with equal source ranks and numbers of words, the first bits of the id decide.
    """
    most = (1 << _WORD_BITS) - 1
    fewer = (most - np.minimum(words, most)).astype(np.uint64)
    first: npt.NDArray[np.uint64] = ids[:, 0] >> np.uint64(64 - _ID_BITS)
    return source_rank.astype(np.uint64) << np.uint64(_WORD_BITS + _ID_BITS) | fewer << np.uint64(_ID_BITS) | first


def from_earlier_run(ranks: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return bool [n]: whether each short rank belongs to a document of an earlier run."""
    found: npt.NDArray[np.bool_] = ranks >> np.uint64(_WORD_BITS + _ID_BITS) == 0
    return found


def best_first(
    source_rank: npt.NDArray[np.int64],
    words: npt.NDArray[np.int64],
    ids: npt.NDArray[np.uint64],
) -> npt.NDArray[np.int64]:
    """Return the positions of the documents from best to worst. `ids` is uint64 [n, 2], unique within a run."""
    order: npt.NDArray[np.int64] = np.lexsort((ids[:, 1], ids[:, 0], -words, source_rank))
    return order
