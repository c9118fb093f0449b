"""Compiled kernels of the index (``csrc/index``). They release the GIL."""

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
    """Number and sample of everything that lies in the slots [begin, end) of a stage's ``planned``, in order.

    Sample k of dataset d lies at (2k + 1) / (2 ``quotas[d]``) of the stage: exact, ties by d. It comes out as
    (``numbers[d]``, ``firsts[d]`` + k), in the narrower of two types that hold every number of the call. Raises
    ``ValueError`` for quotas outside of 0 to ``planned``, for slots outside of the stage, and for a stage of more than
    2^61 samples.
    """

class Deal:
    """Documents distributed over groups: group 2 p holds the training documents of pair p, 2 p + 1 those held out."""

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
        """Assign documents ``first``, ``first`` + 1, ... of ``lengths[i]`` tokens to pair ``pairs[language, source]``.

        Held out are those whose split key is less than ``held_out_below``, or all. Raises ``ValueError`` for numbers
        out of range, negative lengths, and more than 2^33 documents.
        """

    def groups(self) -> NDArray[np.int64]:
        """Documents, tokens, tokens of the longest document, of each group: shape (groups, 3)."""

    def take(self, groups: list[int]) -> NDArray[np.uint64]:
        """A word a document, number << 31 | tokens, group after group in the order they came; and forget them."""

class EpochOrder:
    """Rows in reading order: epoch after epoch, each a random permutation that follows from key and epoch alone."""

    def __init__(self, rows: NDArray[np.uint64], key: int, epoch: int, band: int) -> None:
        """From ``epoch`` on. About ``band`` rows are held at a time (at least a bucket of them)."""

    def take(self, count: int, wanted: int) -> NDArray[np.uint64]:
        """The next ``count`` rows; no more than ``wanted`` will be taken from here on (0: any number)."""

def place_of(rows: NDArray[np.uint64], key: int, epoch: int, token: int) -> int:
    """Place, in the order of ``epoch``, of the row with token ``token`` of that epoch."""

class SampleOrder:
    """Sample numbers from ``epoch`` on: those that start in the same epoch in blocks of ``block``, each shuffled."""

    def __init__(self, tokens: int, sequence_length: int, key: int, epoch: int, block: int) -> None: ...
    def take(self, count: int) -> NDArray[np.uint64]:
        """The next ``count``."""

class SampleWalk:
    """Where samples 0 to ``samples`` start, over documents of which the next is ``position``, from ``token`` on."""

    def __init__(self, sequence_length: int, samples: int, position: int, token: int) -> None: ...
    def advance(self, rows: NDArray[np.uint64], wide: bool) -> NDArray[Any]:
        """(position, token offset) of the starts in the next documents: uint32 [n, 2], or int64 if ``wide``."""

class EpochCheck:
    """Whether a document array reads ``unique`` documents, of ``documents`` in the index, each once an epoch."""

    def __init__(self, documents: int, unique: int) -> None: ...
    def advance(self, numbers: NDArray[np.uint32] | NDArray[np.int64]) -> int:
        """Place of the first of the next entries that is out of range or out of turn; -1: there is none."""

    def members(self) -> NDArray[np.uint64]:
        """A bit a document of the index: the ones that the first epoch read."""
