"""Check the blend against the stages in index.json, and check that the stages agree with each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bloomery.contracts.index import verify_array
from bloomery.contracts.index_manifest import IndexManifest
from bloomery.spec.blend_counts import taken
from data_prep.index.arrays import CHUNK
from data_prep.index.index_error import index_error


def check_blend(folder: Path, manifest: IndexManifest) -> None:
    """Check that each stage reads the stated samples of each dataset, in order, without repeating or omitting any.

    Raises:
        CheckFailedError: a check fails. The error states what is wrong and where.
    """
    datasets, samples = verify_array(folder, manifest.blend_dataset), verify_array(folder, manifest.blend_sample)
    where = folder / manifest.blend_sample.path
    if not len(datasets) == len(samples) == manifest.train_samples:
        raise index_error(
            f"the arrays of the blend have {len(datasets)} dataset numbers and {len(samples)} sample numbers",
            where,
            f"{manifest.train_samples} of each",
        )
    names = [entry.name for entry in manifest.train]
    reached = np.zeros(len(names), dtype=np.int64)
    _check_stages(folder, manifest)
    for number, stage in enumerate(manifest.stages):
        before = reached.copy()
        for begin in range(stage.from_sample, stage.to_sample, CHUNK):
            part = slice(begin, min(begin + CHUNK, stage.to_sample))
            outside = (datasets[part] < 0) | (datasets[part] >= len(names))
            if outside.any():
                at, first = folder / manifest.blend_dataset.path, int(datasets[part][outside.argmax()])
                raise index_error(f"dataset number {first} is out of range", at, f"numbers from 0 to {len(names) - 1}")
            # In each dataset, the samples of this part must continue from the last sample of the previous part.
            order = np.argsort(datasets[part], kind="stable")
            counts = np.bincount(datasets[part], minlength=len(names))
            due = np.arange(len(order)) + np.repeat(reached - np.cumsum(counts) + counts, counts)
            wrong = np.flatnonzero(samples[part][order] != due)
            if len(wrong):
                name = names[int(datasets[part][order[wrong[0]]])]
                raise index_error(
                    f"the blend does not read the samples of the dataset {name!r} in order, each once",
                    where,
                    "each sample of a dataset after the previous one",
                )
            reached += counts
        for name, count in zip(names, (reached - before).tolist(), strict=True):
            share = stage.datasets.get(name)
            stated = share.taken if share else 0
            if count != stated:
                raise index_error(
                    f"stage {number} of the blend reads {count} samples of {name!r}",
                    where,
                    f"{stated} samples, as index.json states",
                )
    for entry, count in zip(manifest.train, reached.tolist(), strict=True):
        if count > entry.samples or count != round(manifest.shares.get(entry.name, -1.0) * manifest.train_samples):
            raise index_error(
                f"the blend reads {count} samples of {entry.name!r}",
                where,
                f"as many samples as the dataset's share in index.json requires, at most {entry.samples}",
            )


def _check_stages(folder: Path, manifest: IndexManifest) -> None:
    """Check that each stage starts where the previous one ends, and that its numbers of samples are consistent.

    The quotas must sum to the planned number, and the number taken from each dataset must follow from its quota.
    """
    where, at = folder / "index.json", 0
    reached = dict.fromkeys((entry.name for entry in manifest.train), 0)
    for number, stage in enumerate(manifest.stages):
        shares, length = stage.datasets, stage.to_sample - stage.from_sample
        if stage.from_sample != at or length < 1 or stage.spread_to < stage.to_sample:
            span = f"from_sample {stage.from_sample}, to_sample {stage.to_sample} and spread_to {stage.spread_to}"
            raise index_error(
                f"stage {number} of the blend has {span}",
                where,
                f"from_sample {at}, a greater to_sample, and a spread_to of at least to_sample",
            )
        quotas = {name: share.quota for name, share in shares.items()}
        if min(quotas.values(), default=0) < 1 or sum(quotas.values()) != stage.spread_to - at:
            raise index_error(
                f"the quotas of stage {number} of the blend sum to {sum(quotas.values())} samples",
                where,
                f"{stage.spread_to - at} samples, and at least 1 of each dataset",
            )
        for name, count in taken(quotas, length).items():
            share = shares[name]
            if share.taken != count or share.first_sample != reached.get(name, 0):
                found = f"stage {number} of the blend takes {share.taken} samples of {name!r} from sample "
                found += f"{share.first_sample}"
                raise index_error(
                    found, where, f"{count} samples from sample {reached.get(name, 0)}, as the quotas require"
                )
            if count and name not in reached:
                raise index_error(
                    f"stage {number} of the blend reads {name!r}", where, "a training dataset of the index"
                )
            reached[name] = share.first_sample + count
        at = stage.to_sample
    if at != manifest.train_samples:
        raise index_error(f"the stages of the blend contain {at} samples", where, f"{manifest.train_samples} samples")
