"""Define the stages of a blend in index.json. They determine the dataset of every training sample."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from bloomery.config.section import NotBool, Share

Samples = Annotated[int, Field(ge=0, le=2**54), NotBool]
"""Number or position of samples. The limit keeps sums of such numbers, and the lengths of ranges, within 64 bits."""


class StageShare(BaseModel):
    """Share of one dataset in a stage of the blend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: Share
    """Weight of the dataset in the stage. The weights of all datasets of a stage sum to 1."""
    quota: Samples
    """Number of this dataset's samples that are planned between the stage's first sample and `spread_to`.

    `bloomery.spec.blend_counts` computes the position of each of them.
    """
    first_sample: Samples
    """First sample of the dataset in this stage. The previous stages read the samples before it."""
    taken: Samples
    """Number of this dataset's samples that the stage reads. It is less than the quota if the stage ends before
    `spread_to`."""


class StageEntry(BaseModel):
    """Stage of the blend, which covers the training samples [from_sample, to_sample)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    from_sample: Samples
    to_sample: Samples
    spread_to: Samples
    """End of the samples for which the quotas are planned; at least `to_sample`.

    The quotas sum to `spread_to - from_sample`.
    """
    datasets: dict[str, StageShare]
    """Datasets with a quota, by name."""
