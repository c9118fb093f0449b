"""Compiled kernels of the index (``csrc/index``). The kernels release the GIL."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def blend(
    quotas: NDArray[np.int64],
    numbers: NDArray[np.int64],
    firsts: NDArray[np.int64],
    planned: int,
    begin: int,
    end: int,
) -> tuple[NDArray[np.int16] | NDArray[np.int32], NDArray[np.uint32] | NDArray[np.int64]]:
    """Return the datasets and the samples in the slots [begin, end) of a stage, in blend order.

    A stage has ``planned`` samples and is cut into as many equal slots. Sample k of dataset d belongs at the fraction
    (2k + 1) / (2 ``quotas[d]``) of the stage. Samples are sorted by this exact fraction; ties are sorted by d. Each
    sample is returned as ``numbers[d]`` in the first array and ``firsts[d]`` + k in the second array. Each array has
    the narrower of its two types if that type holds all values that ``numbers``, ``firsts`` and ``quotas`` allow.

    Raises:
        ValueError: a quota outside of 0 to ``planned``, slots outside of the stage, or a stage of more than 2^61
            samples.
    """

class Deal:
    """Documents in groups. A pair is a language and a source.

    Group 2p holds the training documents of pair p, and group 2p + 1 holds the held-out documents of pair p.
    """

    def __init__(self) -> None: ...
    def add(
        self,
        first: int,
        lengths: NDArray[np.int32],
        languages: NDArray[np.int32],
        sources: NDArray[np.int32],
        split_keys: NDArray[np.uint64],
        pairs: NDArray[np.int32],
        held_out_below: int,
        all_held_out: bool,
    ) -> None:
        """Assign documents to groups.

        Document ``first`` + i has ``lengths[i]`` tokens and belongs to the pair ``pairs[languages[i], sources[i]]``.
        It is held out if ``split_keys[i]`` is less than ``held_out_below`` or if ``all_held_out`` is true.

        Raises:
            ValueError: a number out of range, a negative length, or more than 2^33 documents.
        """

    def groups(self) -> NDArray[np.int64]:
        """Return int64 [groups, 3]: each group's documents, its tokens, and the tokens of its longest document."""

    def take(self, groups: list[int]) -> NDArray[np.uint64]:
        """Return the documents of ``groups`` and free their memory.

        Each document is one word: number << 31 | tokens. The groups follow one another as listed. Within a group,
        documents have the order in which they were added.
        """

class EpochOrder:
    """Rows in reading order. Each epoch has a random order of its rows that depends on ``key`` and the epoch alone."""

    def __init__(self, rows: NDArray[np.uint64], key: int, epoch: int, band: int) -> None:
        """Start at ``epoch``. The rows are shuffled in buckets.

        Buckets with about ``band`` rows in total, but at least one bucket, are in memory at a time.
        """

    def take(self, count: int, wanted: int) -> NDArray[np.uint64]:
        """Return the next ``count`` rows.

        ``wanted`` is the greatest number of rows that the caller will still take, including this call. It is 0 if that
        number is unknown.
        """

def place_of(rows: NDArray[np.uint64], key: int, epoch: int, token: int) -> int:
    """Return the position, in the order of ``epoch``, of the row that holds token ``token`` of that epoch."""

class SampleOrder:
    """Sample numbers from ``epoch`` on. Samples that start in the same epoch are shuffled in blocks of ``block``."""

    def __init__(self, tokens: int, sequence_length: int, key: int, epoch: int, block: int) -> None: ...
    def take(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` sample numbers."""

class SampleWalk:
    """Computes where samples 0 to ``samples`` start in documents that are laid end to end.

    The next document has the position ``position`` in reading order and begins at token ``token``. Samples that start
    before that token are left out.
    """

    def __init__(self, sequence_length: int, samples: int, position: int, token: int) -> None: ...
    def advance(self, rows: NDArray[np.uint64], wide: bool) -> NDArray[Any]:
        """Return the starts of the samples that start in the documents ``rows``: uint32 [n, 2], or int64 if ``wide``.

        Each start is the position of a document and a token offset in that document.
        """

class EpochCheck:
    """Checks that a document array reads ``unique`` of the ``documents`` in the index, each once per epoch."""

    def __init__(self, documents: int, unique: int) -> None: ...
    def advance(self, numbers: NDArray[np.uint32] | NDArray[np.int64]) -> int:
        """Return the position in ``numbers`` of the first wrong entry, or -1 if every entry is right.

        An entry is wrong if it is out of range, if its epoch has already read the document, or if the first epoch did
        not read the document.
        """

    def members(self) -> NDArray[np.uint64]:
        """Return one bit per document of the index, set if the first epoch reads the document."""
