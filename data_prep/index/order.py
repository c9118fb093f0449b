"""The order in which the documents and the samples of a dataset are read.

`epochs`, the default: every epoch reads every document once, in a random order of its own; the samples that start in an
epoch are shuffled in blocks of 2^20. The order of an epoch follows from seed, dataset and epoch alone, and no more of
it is kept than is read: a longer training, or a larger share, only appends.

`megatron`: Megatron-core's GPTDataset, array for array (megatron/core/datasets/gpt_dataset.py, 0.16): the documents of
all epochs shuffled together, the samples too, the last epoch apart where less than 80 % of it is read; one NumPy
RandomState(seed) for both. Changing the number of samples changes it as a whole. It holds all epochs in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.base.digest import seed_for
from data_prep.index import _index
from data_prep.index.arrays import CHUNK
from data_prep.index.split import Rows

BAND = 1 << 26
"""Rows that a shuffle holds at a time: 0.5 GB."""
BLOCK = 1 << 20
"""Samples that are shuffled together. Their documents are shuffled already: this parts the samples of a long one."""
SEPARATE_BELOW = 0.80
"""Megatron's threshold of the separate last epoch."""


def samples_in(tokens: int, sequence_length: int) -> int:
    """Whole samples in `tokens` tokens: each needs one token beyond its inputs."""
    return max(0, (tokens - 1) // sequence_length)


class EpochsOrder:
    """Order `epochs` of a dataset.

    Attributes: `epochs`, how many are begun; `samples`, those asked for and what fills their last block; `entries`, the
    documents that are read for them.
    """

    def __init__(self, rows: Rows, tokens: int, sequence_length: int, quota: int, key: str, seed: int) -> None:
        """`rows`, `tokens`: of the dataset; `quota`: samples asked for; `key`: name that the random numbers follow."""
        self._rows, self._tokens, self._length = rows, tokens, sequence_length
        self._documents_key, self._samples_key = (
            seed_for(seed, f"index/{key}/{what}") for what in ("documents", "samples")
        )
        last = quota - 1
        epoch = last * sequence_length // tokens
        first, behind = (-(-at * tokens // sequence_length) for at in (epoch, epoch + 1))
        self.epochs = epoch + 1
        self.samples = min(behind, first + ((last - first) // BLOCK + 1) * BLOCK)
        # The last sample's last token is the first of the sample behind it.
        epoch, token = divmod(self.samples * sequence_length, tokens)
        place = _index.place_of(rows, self._documents_key, epoch, token)
        self.entries = epoch * len(rows) + place + 1

    def documents(self) -> Iterator[Rows]:
        """The rows in reading order, in pieces: `entries` in all."""
        order = _index.EpochOrder(self._rows, self._documents_key, 0, BAND)
        for begin in range(0, self.entries, CHUNK):
            yield order.take(min(CHUNK, self.entries - begin), self.entries - begin)

    def shuffle(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Sample numbers in reading order, in pieces: `samples` in all."""
        order = _index.SampleOrder(self._tokens, self._length, self._samples_key, 0, BLOCK)
        for begin in range(0, self.samples, CHUNK):
            yield order.take(min(CHUNK, self.samples - begin))


class MegatronOrder:
    """Order `megatron` of a dataset; attributes as in `EpochsOrder`, `entries` being whole epochs."""

    def __init__(self, rows: Rows, tokens: int, sequence_length: int, quota: int, seed: int) -> None:
        """See `EpochsOrder`. `seed`: Megatron's `random_seed`, below 2^32."""
        self._rows, self._random = rows, np.random.RandomState(seed)
        self.epochs = max(1, -(-(quota * sequence_length + 1) // tokens))
        self.samples = samples_in(self.epochs * tokens, sequence_length)
        self.entries = self.epochs * len(rows)
        before = samples_in((self.epochs - 1) * tokens, sequence_length)
        last = quota - before
        separate = self.epochs > 1 and last < int(SEPARATE_BELOW * samples_in(tokens, sequence_length))
        self._epochs_together = self.epochs - separate
        self._samples_together = before if separate else self.samples
        self._positions = self._documents_drawn()

    def _documents_drawn(self) -> list[npt.NDArray[Any]]:
        """The generator's first numbers: positions in `rows`, of the epochs shuffled together and of the one apart."""
        drawn = []
        for epochs in (self._epochs_together, self.epochs - self._epochs_together):
            positions = np.tile(np.arange(len(self._rows), dtype=np.min_scalar_type(len(self._rows))), epochs)
            self._random.shuffle(positions)
            drawn.append(positions)
        return drawn

    def documents(self) -> Iterator[Rows]:
        """The rows in reading order, in pieces: `entries` in all."""
        for positions in self._positions:
            for begin in range(0, len(positions), CHUNK):
                yield self._rows[positions[begin : begin + CHUNK]]

    def shuffle(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Sample numbers in reading order, in pieces: `samples` in all."""
        for begin, end in ((0, self._samples_together), (self._samples_together, self.samples)):
            samples = np.arange(begin, end, dtype=np.uint64)
            self._random.shuffle(samples)
            yield samples


class CorpusOrder:
    """Order of a validation set: one epoch in corpus order, at most `most` samples, spread evenly over it."""

    def __init__(self, rows: Rows, tokens: int, sequence_length: int, most: int) -> None:
        """See `EpochsOrder`."""
        self._rows = rows
        self.epochs, self.entries = 1, len(rows)
        self.samples = samples_in(tokens, sequence_length)
        self._kept = min(self.samples, most)

    def documents(self) -> Iterator[Rows]:
        """The rows as they are, in pieces."""
        for begin in range(0, self.entries, CHUNK):
            yield self._rows[begin : begin + CHUNK]

    def shuffle(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Sample numbers in reading order: as many as there are, at most `most`."""
        yield np.arange(self._kept, dtype=np.uint64) * np.uint64(self.samples) // np.uint64(max(self._kept, 1))


Order = EpochsOrder | MegatronOrder | CorpusOrder
