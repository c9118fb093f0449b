"""Stages of a blend, as index.json states them: a closed form of which dataset every training sample comes from."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StageShare(BaseModel):
    """A dataset's part in a stage of the blend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: float
    """What the stage asks for; all of its datasets' sum to 1."""
    quota: int
    """Samples laid out from the stage's first to `spread_to`: `bloomery.spec.blend_counts` says where each lies."""
    first_sample: int
    """Of the dataset, where the stages before stopped."""
    taken: int
    """Samples read in the stage: less than the quota where it ends before `spread_to`."""


class StageEntry(BaseModel):
    """A stage of the blend: the training samples [from_sample, to_sample)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    from_sample: int
    to_sample: int
    spread_to: int
    """Sample to which the quotas are laid out, at least `to_sample`; they sum to what lies between."""
    datasets: dict[str, StageShare]
    """Datasets with a quota, by name."""
