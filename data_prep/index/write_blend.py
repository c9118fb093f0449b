"""Write the blend, which assigns each global training sample to a dataset. Quotas are exact and spread evenly.

Quotas are a stage's weights times its number of samples, rounded by largest remainder, so they sum exactly. Each
dataset is built with all samples that the stages take of it, so it cannot run out. (Megatron's greedy blend has no such
bound and fails late in training when a dataset runs out: NVIDIA/Megatron-LM#705.)

Sample k of a dataset with quota q belongs at the fraction (k + 1/2) / q of its stage (`bloomery.spec.blend_counts`).
Every part of a stage then holds each dataset's share to within one sample. An integer division gives the first sample
of each dataset in a window of the stage. `csrc/index/blend.cpp` therefore computes the order window by window. For
166.8 M samples there are 40 windows of 4 M samples, 1 GB of output (6 bytes per sample) and about 200 MB of memory,
whatever the number of datasets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.contracts.blend import StageEntry
from bloomery.contracts.index_manifest import ArrayEntry
from data_prep.corpus.shares import fill
from data_prep.index import _index
from data_prep.index.arrays import CHUNK, write_arrays

Window = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Dataset numbers, int16 | int32 [n], and sample numbers within these datasets, uint32 | int64 [n]."""


def quotas(weights: Mapping[str, float], samples: int, limits: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the samples per dataset, which sum to `samples`: normalised weights, rounded by largest remainder.

    Equal remainders are sorted by name.

    Args:
        weights: positive weight of each dataset, at least one.
        samples: number of samples to distribute.
        limits: maximum samples per dataset, which sum to at least `samples`, or None for no limits. Samples above a
            limit go to the other datasets in proportion to their weights.
    """
    ideal = fill(weights, samples, dict.fromkeys(weights, samples) if limits is None else limits)
    result = {name: int(value) for name, value in ideal.items()}
    missing = samples - sum(result.values())
    # A dataset at its limit has no remainder, so rounding up never exceeds a limit.
    for name in sorted(ideal, key=lambda name: (result[name] - ideal[name], name))[:missing]:
        result[name] += 1
    return result


def blend(stages: Sequence[StageEntry], names: Sequence[str], window_samples: int = CHUNK) -> Iterator[Window]:
    """Yield the samples of all stages, window by window. Dataset number n is `names[n]`; ties are sorted by name."""
    numbers = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
    for stage in stages:
        shares = [stage.datasets.get(names[number]) for number in numbers.tolist()]
        firsts = np.array([share.first_sample if share else 0 for share in shares], dtype=np.int64)
        quotas = np.array([share.quota if share else 0 for share in shares], dtype=np.int64)
        planned, left = stage.spread_to - stage.from_sample, stage.to_sample - stage.from_sample
        for begin in range(0, planned, window_samples):
            end = min(begin + window_samples, planned)
            datasets, samples = _index.blend(quotas, numbers, firsts, planned, begin, end)
            yield datasets[:left], samples[:left]
            left -= min(left, len(datasets))
            if not left:
                break


def write_blend(
    index: Path, folder: str, stages: Sequence[StageEntry], names: Sequence[str]
) -> tuple[ArrayEntry, ArrayEntry]:
    """Write `blend_dataset` and `blend_sample` to `index / folder`, each in the smallest type that holds its values."""
    samples = stages[-1].to_sample
    most = max(share.first_sample + share.taken for stage in stages for share in stage.datasets.values())
    dataset = "<i2" if len(names) <= 1 << 15 else "<i4"
    sample = "<u4" if most <= 1 << 32 else "<i8"
    arrays = [
        (f"{folder}/blend_dataset.npy", dataset, (samples,)),
        (f"{folder}/blend_sample.npy", sample, (samples,)),
    ]
    first, second = write_arrays(index, arrays, blend(stages, names))
    return first, second
