"""What the first samples of an index follow from: a checkpoint holds it, a rebuilt index is held against it.

An index may change under a training: later stages of the blend, more samples, more text of other languages. What was
read must stay what it was, or the training would repeat some of it and lose the rest.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from bloomery.spec.blend_counts import taken

if TYPE_CHECKING:
    from bloomery.contracts.index import IndexManifest


class PrefixStage(BaseModel):
    """A stage of the blend, as far as it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    from_sample: int
    to_sample: int
    quotas: dict[str, int]
    """Per dataset. They and `from_sample` say where each sample lies (`bloomery.spec.blend_counts`)."""

    @property
    def spread_to(self) -> int:
        """Sample to which the quotas are laid out."""
        return self.from_sample + sum(self.quotas.values())


class SamplePrefix(BaseModel):
    """What decides the first samples of an index: equal here, they are equal token for token."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    samples: int
    stages: list[PrefixStage]
    """Those that were begun."""
    datasets: dict[str, str]
    """Identity of each dataset that gave samples."""


def sample_prefix(index: IndexManifest, samples: int) -> SamplePrefix:
    """What decides the first `samples` of the training samples of `index`; of all where there are fewer."""
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
    """What is not the same, a phrase each; none: the samples are the same."""
    found = []
    if before.samples != after.samples:
        found.append(f"the index holds {after.samples} samples, {before.samples} were read")
    for number, (old, new) in enumerate(zip(before.stages, after.stages, strict=False)):
        for what in ("from_sample", "spread_to", "to_sample"):
            if getattr(old, what) != getattr(new, what):
                found.append(f"{what} of blend stage {number}: {getattr(old, what)} -> {getattr(new, what)}")
        changed = [name for name in sorted({*old.quotas, *new.quotas}) if old.quotas.get(name) != new.quotas.get(name)]
        if changed:
            name = changed[0]
            more = f" and of {len(changed) - 1} more" if len(changed) > 1 else ""
            quotas = f"{old.quotas.get(name, 0)} -> {new.quotas.get(name, 0)}"
            found.append(f"quota of {name} in blend stage {number}{more}: {quotas}")
    if len(before.stages) != len(after.stages):
        found.append(f"blend stages begun: {len(before.stages)} -> {len(after.stages)}")
    others = [
        name for name, identity in sorted(before.datasets.items()) if after.datasets.get(name, identity) != identity
    ]
    if others:
        found.append(f"documents of {', '.join(others)}")
    return found


def how_to_keep(before: SamplePrefix) -> str:
    """What `index.blend` must say so that an index begins with the samples of `before`."""
    stages = [f"{{from_sample: {stage.from_sample}, ...}} as it was" for stage in before.stages[:-1]]
    last = before.stages[-1]
    stages.append(f"{{from_sample: {last.from_sample}, spread_to: {last.spread_to}}} with the weights it had")
    stages.append(
        f"what shall change in a stage with from_sample >= {before.samples}, and what a longer training adds in one "
        f"with from_sample <= {last.spread_to}"
    )
    return f"the same documents and, in index.blend, {'; '.join(stages)}"
