"""Read a rank's samples as tensors. `bloomery.spec.layout` decides which samples a rank reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from bloomery.spec.layout import micro_batch_starts

MicroBatch = tuple[torch.Tensor, torch.Tensor]
"""Inputs and labels, int64 [micro_batch, length] each."""


def micro_batches(
    read: Callable[[int], npt.NDArray[np.int64]],
    samples: Sequence[int],
    micro_batch_size: int,
    data_rank: int,
    data_size: int,
    length: int | None = None,
) -> Iterator[MicroBatch]:
    """Yield this replica's micro-batches of the global batch `samples`.

    The number of samples must be a multiple of micro_batch_size x data_size.

    Args:
        read: returns the tokens of a sample, [sequence_length + 1].
        samples: numbers of the samples, in order.
        micro_batch_size: samples per micro-batch.
        data_rank: number of this replica.
        data_size: number of replicas.
        length: number of inputs, and of labels, per sample, which a curriculum reduces. None uses the full length.
    """
    end = None if length is None else length + 1
    for members in samples_of_micro_batches(samples, micro_batch_size, data_rank, data_size):
        rows = [read(sample)[:end] for sample in members]
        tokens = torch.from_numpy(np.stack(rows))
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def samples_of_micro_batches(
    samples: Sequence[int], micro_batch_size: int, data_rank: int, data_size: int
) -> list[Sequence[int]]:
    """Return the numbers of the samples in each micro-batch of this replica, in order. See `micro_batches`."""
    starts = micro_batch_starts(0, len(samples), micro_batch_size, data_rank, data_size)
    return [samples[start : start + micro_batch_size] for start in starts]
