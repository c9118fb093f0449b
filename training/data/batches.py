"""The samples that a rank reads (`bloomery.plan.layout` says which), as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from bloomery.plan.layout import micro_batch_starts

MicroBatch = tuple[torch.Tensor, torch.Tensor]
"""Inputs and labels, int64 [micro_batch, sequence_length] each."""


def micro_batches(
    read: Callable[[int], npt.NDArray[np.int64]],
    first_sample: int,
    samples: int,
    micro_batch_size: int,
    data_rank: int,
    data_size: int,
) -> Iterator[MicroBatch]:
    """This replica's micro-batches of the global batch [first_sample, first_sample + samples).

    `read` gives the sequence_length + 1 tokens of a sample.
    """
    for start in micro_batch_starts(first_sample, samples, micro_batch_size, data_rank, data_size):
        tokens = torch.from_numpy(np.stack([read(start + offset) for offset in range(micro_batch_size)]))
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
