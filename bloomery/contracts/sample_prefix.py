"""Define the prefix of an index: everything that determines the first samples of the index.

A checkpoint stores this prefix, and a rebuilt index is compared with the stored prefix. An index may change during a
training: it may have different stages at the end of the blend, more samples, or more text of other languages. The
samples that were already read must stay the same. Otherwise the training would repeat some samples and never read
others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from bloomery.contracts.blend import Samples
from bloomery.spec.blend_counts import taken

if TYPE_CHECKING:
    from bloomery.contracts.index_manifest import IndexManifest


class PrefixStage(BaseModel):
    """Stage of the blend, up to the last sample that was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    from_sample: Samples
    to_sample: Samples
    quotas: dict[str, Samples]
    """Quota of each dataset. Together with `from_sample`, the quotas determine the position of each sample
    (`bloomery.spec.blend_counts`)."""

    @property
    def spread_to(self) -> int:
        """Sample up to which the quotas are planned."""
        return self.from_sample + sum(self.quotas.values())


class SamplePrefix(BaseModel):
    """Everything that determines the first samples of an index. If two prefixes are equal, so are all tokens of
    these samples."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    samples: Samples
    stages: list[PrefixStage]
    """Stages of which at least one sample was read."""
    datasets: dict[str, str]
    """Identity of each dataset that contributed samples."""


def sample_prefix(index: IndexManifest, samples: int) -> SamplePrefix:
    """Return what determines the first `samples` training samples of `index`, or all samples if the index has fewer."""
    stages, read = [], Counter[str]()
    for stage in index.stages:
        end = min(stage.to_sample, samples)
        if end <= stage.from_sample:
            break
        quotas = {name: share.quota for name, share in stage.datasets.items()}
        stages.append(PrefixStage(from_sample=stage.from_sample, to_sample=end, quotas=quotas))
        read.update(taken(quotas, end - stage.from_sample))
    return SamplePrefix(
        samples=min(samples, index.train_samples),
        stages=stages,
        datasets={entry.name: entry.identity for entry in index.train if read[entry.name]},
    )


def prefix_differences(before: SamplePrefix, after: SamplePrefix) -> list[str]:
    """Return one phrase for each difference; an empty list means that the samples are the same."""
    found = []
    if before.samples != after.samples:
        found.append(f"the index holds {after.samples} samples, but the training has read {before.samples}")
    for number, (old, new) in enumerate(zip(before.stages, after.stages, strict=False)):
        for what in ("from_sample", "spread_to", "to_sample"):
            if getattr(old, what) != getattr(new, what):
                found.append(f"{what} of blend stage {number}: {getattr(old, what)} -> {getattr(new, what)}")
        changed = [name for name in sorted({*old.quotas, *new.quotas}) if old.quotas.get(name) != new.quotas.get(name)]
        if changed:
            name = changed[0]
            more = f" (number of other datasets whose quota differs: {len(changed) - 1})" if len(changed) > 1 else ""
            quotas = f"{old.quotas.get(name, 0)} -> {new.quotas.get(name, 0)}"
            found.append(f"quota of dataset {name!r} in blend stage {number}, in samples: {quotas}{more}")
    if len(before.stages) != len(after.stages):
        found.append(f"number of blend stages of the samples read so far: {len(before.stages)} -> {len(after.stages)}")
    others = [
        name for name, identity in sorted(before.datasets.items()) if after.datasets.get(name, identity) != identity
    ]
    if others:
        found.append(f"changed documents of the dataset{'s' if len(others) > 1 else ''} {', '.join(others)}")
    return found


def how_to_keep(before: SamplePrefix) -> str:
    """Return what the configuration must contain so that an index begins with the samples of `before`."""
    stages = [f"the stage {{from_sample: {stage.from_sample}, ...}} unchanged" for stage in before.stages[:-1]]
    last = before.stages[-1]
    stages.append(
        f"the stage {{from_sample: {last.from_sample}, spread_to: {last.spread_to}}} with the same weights as in the "
        "old index"
    )
    return (
        f"the same documents as in the old index, and these stages in index.blend: {', '.join(stages)} (new weights "
        f"only in a stage with from_sample >= {before.samples}, additional samples of a longer training only in a "
        f"stage with from_sample <= {last.spread_to})"
    )
