"""The blend: which dataset each global training sample comes from. Exact quotas, spread evenly, in bounded memory.

Quotas are a stage's weights times its number of samples, rounded by largest remainder, so they sum exactly and no
dataset can be over-run: each is built to hold what the stages take of it. (Megatron's greedy blend bounds nothing and
fails late in training when a dataset runs out: NVIDIA/Megatron-LM#705.)

Sample k of a dataset with quota q belongs at (k + 1/2) / q of its stage (`bloomery.spec.blend_counts`); every stretch
of a stage then holds each dataset in its share to within one sample per dataset. A window of the stage begins in each
dataset where an integer division says, so the order is made window by window, by `csrc/index/blend.cpp`. 166.8 M
samples: 40 windows of 4 M, 1 GB of output (6 bytes a sample), some 200 MB of memory, whatever the number of datasets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.contracts.blend import StageEntry
from bloomery.contracts.index import ArrayEntry
from data_prep.corpus.shares import fill
from data_prep.index import _index
from data_prep.index.arrays import CHUNK, write_arrays

Window = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Dataset numbers, int16 | int32 [n], and samples within them, uint32 | int64 [n]."""


def quotas(weights: Mapping[str, float], samples: int, limits: Mapping[str, int] | None = None) -> dict[str, int]:
    """Samples per dataset: `weights` renormalised, times `samples`, by largest remainder; ties by name. Sums exactly.

    All weights positive, at least one. `limits`: most samples of a dataset, together at least `samples`; what a limit
    cuts off goes to the others in proportion to their weights.
    """
    ideal = fill(weights, samples, dict.fromkeys(weights, samples) if limits is None else limits)
    result = {name: int(value) for name, value in ideal.items()}
    missing = samples - sum(result.values())
    # A dataset at its limit has no remainder, so rounding up passes no limit.
    for name in sorted(ideal, key=lambda name: (result[name] - ideal[name], name))[:missing]:
        result[name] += 1
    return result


def blend(stages: Sequence[StageEntry], names: Sequence[str], window_samples: int = CHUNK) -> Iterator[Window]:
    """Every stage's samples, window by window; dataset number n is `names[n]`, ties go by name."""
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
    """Write `blend_dataset` and `blend_sample` below `index / folder`, each of the smallest type that holds it."""
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
