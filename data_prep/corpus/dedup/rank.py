"""Which of two duplicates is the better one: higher priority of its source, then more words, then the smaller id.

Words, not characters: of two texts that differ in white space only, the one with more of it is not the better one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data_prep.corpus.catalogue import Catalogue, Nodes

ID_BYTES = 16


def ranks(catalogue: Catalogue, nodes: Nodes, priorities: dict[str, int]) -> npt.NDArray[np.int64]:
    """Place of each of the sorted `nodes` among them, 0 the best. Equal ids (of different parts): the first part's.

    Args:
        catalogue: the corpus.
        nodes: int64 [n], sorted.
        priorities: priority per source, 0 where none is given.
    """
    table = catalogue.take("measures", ["id", "source", "words"], nodes)
    return order(table, priorities)


def order(table: pa.Table, priorities: dict[str, int]) -> npt.NDArray[np.int64]:
    """Ranks of rows with the columns `id, source, words`."""
    source = table["source"].combine_chunks().dictionary_encode()
    per_source = np.array([priorities.get(name, 0) for name in source.dictionary.to_pylist()], dtype=np.int64)
    priority = per_source[np.asarray(source.indices)] if len(source) else np.empty(0, np.int64)
    # Ids are hexadecimal digits of one length, so their bytes compare as they do.
    identity = table["id"].cast(pa.binary()).cast(pa.binary(2 * ID_BYTES)).combine_chunks()
    words = np.frombuffer(identity.buffers()[1], dtype=">u8")[identity.offset * 4 :][: len(identity) * 4].reshape(-1, 4)
    keys = (*words.T[::-1], -table["words"].to_numpy(), -priority)
    best_first = np.lexsort(keys)
    rank = np.empty(len(best_first), dtype=np.int64)
    rank[best_first] = np.arange(len(best_first))
    return rank
