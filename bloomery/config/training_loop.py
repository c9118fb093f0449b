"""What the training loop does beside learning: checkpoints, validation, segments, guards, kernels, energy."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from bloomery.config.section import Contradiction, Count, NotBool, Positive, Section, report


class SaveRule(Section):
    """How often to save in the first part of a training."""

    until_iteration: Positive
    """Last iteration that the rule is for."""
    every_iterations: Positive
    """Save every so many iterations."""


class CheckpointConfig(Section):
    """When to save and what to keep."""

    every_iterations: Positive = 100
    """Save every so many iterations; always at the end of a segment."""
    schedule: list[SaveRule] = []
    """Other intervals in the first part of the training, in order; behind the last rule `every_iterations` holds."""
    at_iterations: list[Positive] = []
    """Save after these iterations too; such checkpoints are kept for good."""
    keep_last: Positive = 3
    """Newest checkpoints kept."""
    keep_every_iterations: Positive | None = None
    """Checkpoints at multiples of this are kept for good."""
    asynchronous: bool = False
    """Go on training while a copy of the state is written; the checkpoint counts when all of it is on disk."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        ends = [rule.until_iteration for rule in self.schedule]
        if any(end <= before for before, end in pairwise(ends)):
            key = "training.checkpoint.schedule"
            message = f"training: checkpoint.schedule: until_iteration must grow, not {', '.join(map(str, ends))}"
            report([Contradiction(message, (key,), ends, "rules in ascending order of until_iteration")], info)
        return self


class ValidationConfig(Section):
    """Fixed, named sets (one a language), rewound each time."""

    every_iterations: Positive = 1000
    """Validate every so many iterations, and at the end of training."""
    samples: Positive = 64
    """Greatest number of samples of a set."""


class SegmentConfig(Section):
    """Training is a chain of segments."""

    minutes: Annotated[float, Field(gt=0), NotBool] | None = None
    """A segment saves and ends after this time; null: it runs to the end of training."""
    iterations: Positive | None = None
    """A segment saves and ends after so many iterations; null: no such limit."""
    margin_minutes: Annotated[float, Field(ge=0), NotBool] = 5.0
    """Under a scheduler a segment saves and ends so long before the job's time limit, and earlier by the time of a save
    and of two iterations; at least the time of one save."""
    max_segments: Positive = 1000
    """The chain stops after so many segments."""
    max_crashes: Count = 2
    """Crashes in a row that are retried."""
    max_restarts_without_progress: Positive = 5
    """The chain stops after so many starts in a row, however they ended, that saved no new checkpoint."""


class SpikeConfig(Section):
    """A jump of the gradient norm or of the loss over what the last iterations had."""

    window_iterations: Annotated[int, Field(ge=16), NotBool] = 128
    """Iterations that say what is usual."""
    deviations: Annotated[float, Field(gt=0), NotBool] = 6.0
    """A value so many (robust) standard deviations above the usual one is a spike."""
    action: Literal["log", "skip", "roll_back"] = "log"
    """`log`: write the event and the texts of its samples; `skip`: also leave out the update of an iteration whose
    gradient norm is a spike; `roll_back`: go back to the checkpoint before it and skip its samples."""


class GuardsConfig(Section):
    """What watches over the training."""

    replicas_every_iterations: Positive | None = 100
    """Compare hashes of all replicas of the weights, and the state of random numbers, every so many iterations;
    null: never."""
    spike: SpikeConfig | None = SpikeConfig()
    """Detector of spikes; null: none."""
    non_finite: Literal["skip", "roll_back", "stop"] = "skip"
    """When loss or gradient are not finite, the weights stay as they were, and: `skip`: go on; `roll_back`: as for a
    spike; `stop`: end with status `failed`."""
    max_skipped_updates: Positive = 5
    """Updates in a row that may be left out; then the training stops with status `failed`."""
    roll_back_iterations: Positive = 10
    """A roll-back also skips the samples of so many iterations before the event: a gradient grows before its loss."""
    max_roll_backs: Positive = 3
    """Roll-backs of a training by its guards; at the next one it stops with status `failed`."""


class KernelsConfig(Section):
    """Which implementation computes what; `bloomery doctor` shows what `auto` takes on a machine, and why."""

    attention: Literal["auto", "eager", "sdpa", "flex", "flash"] = "auto"
    """`sdpa`: torch's scaled_dot_product_attention; `flex`: torch's FlexAttention, compiled on a GPU; `flash`: the
    flash-attn package; `eager`: plain products and softmax."""
    layer_norm: Literal["auto", "torch", "apex"] = "auto"
    """`apex`: FusedLayerNorm of NVIDIA's apex."""
    optimizer: Literal["auto", "torch", "fused", "apex"] = "auto"
    """`fused`: torch's fused Adam; `apex`: FusedAdam of NVIDIA's apex."""
    compile: bool = False
    """Compile each block with torch.compile."""


class LossScaleConfig(Section):
    """Dynamic loss scaling of fp16."""

    initial_power: Count = 16
    """The first scale is 2 to this power."""
    window_iterations: Positive = 500
    """The scale doubles after so many iterations without an overflow."""
    hysteresis: Positive = 2
    """Overflows before the scale is halved."""
    minimum: Positive = 1
    """Least scale."""


class SkipRange(Section):
    """Samples that are not trained on."""

    from_sample: Count
    """First of them, counted as consumed_samples counts: the order of the index's training samples."""
    to_sample: Positive
    """First behind them."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        if self.to_sample <= self.from_sample:
            message = f"training: skip: to_sample {self.to_sample} must exceed from_sample {self.from_sample}"
            report([Contradiction(message, ("training.skip",), self.to_sample, f"over {self.from_sample}")], info)
        return self


class EnergyConfig(Section):
    """Energy and CO2 by codecarbon (extra `energy`), offline, measured once on each node."""

    country: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    """Country of the machine (ISO 3166-1 alpha-3): decides the CO2 of a kWh."""
    every_seconds: Annotated[float, Field(gt=0), NotBool] = 15.0
    """Time between two measurements of power."""
