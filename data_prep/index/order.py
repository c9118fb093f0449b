"""The order in which the documents and the samples of a dataset are read.

`epochs` is the default. Every epoch reads every document once, in its own random order. Samples that start in the same
epoch are shuffled in blocks of 2^20. The order of an epoch depends only on the seed, the dataset and the epoch, and the
arrays hold only what the training reads. A longer training or a larger share of a dataset therefore only appends
samples.

`megatron` gives the same arrays as Megatron-core's GPTDataset (megatron/core/datasets/gpt_dataset.py, 0.16). The
documents of all epochs are shuffled together, and so are the samples. The last epoch is shuffled separately if less
than 80 % of it is read. One NumPy RandomState(seed) draws both shuffles. A different number of samples changes the
whole order. This order holds all epochs in memory.
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
"""Number of rows that a shuffle holds in memory at a time (0.5 GB)."""
BLOCK = 1 << 20
"""Number of samples that are shuffled together, to separate the samples of a long document. Documents are shuffled
before."""
SEPARATE_BELOW = 0.80
"""Share of the last epoch below which Megatron shuffles that epoch separately."""


def samples_in(tokens: int, sequence_length: int) -> int:
    """Return the number of whole samples in `tokens` tokens. A sample needs one token more than its inputs."""
    return max(0, (tokens - 1) // sequence_length)


class EpochsOrder:
    """Order `epochs` of a dataset.

    Attributes: `epochs` is the number of epochs up to the start of the last requested sample. `samples` is the number
    of requested samples plus the rest of the last block. `entries` is the number of documents that these samples read.
    A document is counted once for each epoch that reads it.
    """

    def __init__(self, rows: Rows, tokens: int, sequence_length: int, quota: int, key: str, seed: int) -> None:
        """Compute the attributes.

        Args:
            rows: documents of the dataset.
            tokens: tokens of all `rows`.
            sequence_length: tokens per sample.
            quota: number of requested samples.
            key: name from which, with `seed`, the random numbers are derived.
            seed: seed of the index.
        """
        self._rows, self._tokens, self._length = rows, tokens, sequence_length
        self._documents_key, self._samples_key = (
            seed_for(seed, f"index/{key}/{what}") for what in ("documents", "samples")
        )
        last = quota - 1
        epoch = last * sequence_length // tokens
        first, behind = (-(-at * tokens // sequence_length) for at in (epoch, epoch + 1))
        self.epochs = epoch + 1
        self.samples = min(behind, first + ((last - first) // BLOCK + 1) * BLOCK)
        # A sample's last token is the first token of the next sample, so the row of that token is read too.
        epoch, token = divmod(self.samples * sequence_length, tokens)
        place = _index.place_of(rows, self._documents_key, epoch, token)
        self.entries = epoch * len(rows) + place + 1

    def documents(self) -> Iterator[Rows]:
        """Yield `entries` rows in reading order, in pieces."""
        order = _index.EpochOrder(self._rows, self._documents_key, 0, BAND)
        for begin in range(0, self.entries, CHUNK):
            yield order.take(min(CHUNK, self.entries - begin), self.entries - begin)

    def shuffle(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Yield `samples` sample numbers in reading order, in pieces."""
        order = _index.SampleOrder(self._tokens, self._length, self._samples_key, 0, BLOCK)
        for begin in range(0, self.samples, CHUNK):
            yield order.take(min(CHUNK, self.samples - begin))


class MegatronOrder:
    """Order `megatron` of a dataset. Its attributes are those of `EpochsOrder`, but all epochs are whole."""

    def __init__(self, rows: Rows, tokens: int, sequence_length: int, quota: int, seed: int) -> None:
        """Compute the attributes (see `EpochsOrder`) and shuffle the documents.

        `seed` is Megatron's `random_seed`, which must be less than 2^32.
        """
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
        """Return shuffled positions in `rows`: one array for the epochs shuffled together, one for the separate epoch.

        Megatron draws these numbers before those of the samples, so this must be the generator's first use.
        """
        drawn = []
        for epochs in (self._epochs_together, self.epochs - self._epochs_together):
            positions = np.tile(np.arange(len(self._rows), dtype=np.min_scalar_type(len(self._rows))), epochs)
            self._random.shuffle(positions)
            drawn.append(positions)
        return drawn

    def documents(self) -> Iterator[Rows]:
        """Yield `entries` rows in reading order, in pieces."""
        for positions in self._positions:
            for begin in range(0, len(positions), CHUNK):
                yield self._rows[positions[begin : begin + CHUNK]]

    def shuffle(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Yield `samples` sample numbers in reading order, in pieces."""
        for begin, end in ((0, self._samples_together), (self._samples_together, self.samples)):
            samples = np.arange(begin, end, dtype=np.uint64)
            self._random.shuffle(samples)
            yield samples


class CorpusOrder:
    """Order of a validation set: one epoch in corpus order, of which at most `most` evenly spread samples are read."""

    def __init__(self, rows: Rows, tokens: int, sequence_length: int, most: int) -> None:
        """Compute the attributes (see `EpochsOrder`)."""
        self._rows = rows
        self.epochs, self.entries = 1, len(rows)
        self.samples = samples_in(tokens, sequence_length)
        self._kept = min(self.samples, most)

    def documents(self) -> Iterator[Rows]:
        """Yield the rows in corpus order, in pieces."""
        for begin in range(0, self.entries, CHUNK):
            yield self._rows[begin : begin + CHUNK]

    def shuffle(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Yield the sample numbers in reading order, at most `most` of them."""
        yield np.arange(self._kept, dtype=np.uint64) * np.uint64(self.samples) // np.uint64(max(self._kept, 1))


Order = EpochsOrder | MegatronOrder | CorpusOrder
