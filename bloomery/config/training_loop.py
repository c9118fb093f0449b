"""Sections of the training loop: checkpoints, validation, segments, preflight, hangs, guards, kernels, loss scaling,
skipped samples and energy."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from bloomery.config.section import Contradiction, Count, NotBool, Positive, Section, report


class SaveRule(Section):
    """How often to save checkpoints in the first iterations of a training."""

    until_iteration: Annotated[Positive, Field(examples=[1000])]
    """Last iteration to which this rule applies."""
    every_iterations: Annotated[Positive, Field(examples=[50])]
    """Number of iterations between checkpoints while this rule applies."""


class CheckpointConfig(Section):
    """When to save checkpoints, and which ones to keep."""

    every_iterations: Positive = 100
    """Number of iterations between checkpoints. A checkpoint is also saved at the end of each segment."""
    schedule: Annotated[list[SaveRule], Field(examples=[[{"until_iteration": 1000, "every_iterations": 50}]])] = []
    """Rules with other intervals for the first iterations of the training, in ascending order of `until_iteration`.
    After the last rule, `every_iterations` applies."""
    at_iterations: Annotated[list[Positive], Field(examples=[[1000, 10000]])] = []
    """Additional iterations after which a checkpoint is saved. These checkpoints are never removed."""
    keep_last: Positive = 3
    """Number of newest checkpoints to keep. Older checkpoints are removed, unless `at_iterations` or
    `keep_every_iterations` protects them."""
    keep_every_iterations: Positive | None = None
    """Checkpoints at multiples of this many iterations are never removed. Default (null): no such checkpoints."""
    asynchronous: bool = False
    """Continue training while a copy of the state is written. The checkpoint becomes valid when it is completely on
    disk."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        ends = [rule.until_iteration for rule in self.schedule]
        if any(end <= before for before, end in pairwise(ends)):
            key = "training.checkpoint.schedule"
            message = (
                f"training: checkpoint.schedule: until_iteration must increase from rule to rule, but the values are "
                f"{', '.join(map(str, ends))}"
            )
            report([Contradiction(message, (key,), ends, "rules in ascending order of until_iteration")], info)
        return self


class ValidationConfig(Section):
    """Validation on fixed sets of held-out samples, one set per dataset. A dataset is a language, or one source of a
    language that is mixed by source."""

    every_iterations: Positive = 1000
    """Number of iterations between validations. The model is also validated at the end of the training."""
    samples: Positive = 64
    """Maximum number of samples in each validation set."""


class SegmentConfig(Section):
    """Limits of the segments. A training is a chain of segments, each of which resumes from the last checkpoint."""

    minutes: Annotated[float, Field(gt=0), NotBool] | None = None
    """Time in minutes after which a segment saves a checkpoint and ends. Default (null): no limit."""
    iterations: Positive | None = None
    """Number of iterations after which a segment saves a checkpoint and ends. Default (null): no limit."""
    margin_minutes: Annotated[float, Field(ge=0), NotBool] = 5.0
    """In a SLURM job, a segment saves a checkpoint and ends at least this many minutes before the job's time limit. It
    also reserves 1.5 times its longest save and twice its longest iteration so far. Choose at least the time of one
    save, because a segment cannot know this time before its first save."""
    max_segments: Positive = 1000
    """Maximum number of segments of the training. The workflow fails if the training is not finished after this many
    segments."""
    max_crashes: Count = 2
    """Maximum number of crashes without a new checkpoint. Up to this number, the training is started again after a
    crash. One more crash stops the training with an error. Each new checkpoint resets the count, so a training that
    progresses may crash any number of times."""
    max_restarts_without_progress: Positive = 5
    """Maximum number of consecutive starts of the training that save no new checkpoint, for whatever reason (crashes,
    killed jobs, errors). The next start ends with an error. Each new checkpoint resets the count."""


class PreflightConfig(Section):
    """Preflight: checks of all nodes at the start of each segment, before the training. A node that fails a check is
    named, and in a SLURM job the next segments exclude this node for some time."""

    max_seconds: Annotated[float, Field(gt=0), NotBool] = 60.0
    """Maximum time of the checks, in seconds: half for the checks of each process alone, and half for the
    communication. A node whose check takes longer fails this check. The time until all processes have started does not
    count."""
    start_seconds: Annotated[float, Field(gt=0), NotBool] = 600.0
    """Maximum time to wait until the processes of all nodes have started and report their checks, in seconds."""
    slow_ratio: Annotated[float, Field(gt=1), NotBool] = 1.5
    """A node is slow if its matrix product takes more than this many times the median time of the other nodes. Between
    two nodes, the square of this number applies."""
    slow_link_ratio: Annotated[float, Field(gt=1), NotBool] = 3.0
    """The communication of a node is slow if an all-reduce takes more than this many times the median time of the other
    nodes."""
    max_clock_offset_seconds: Annotated[float, Field(gt=0), NotBool] = 60.0
    """Maximum difference between the clock of a node and the median of all clocks, in seconds. A difference of more
    than 1 second is only reported."""
    min_temporary_gb: Annotated[float, Field(ge=0), NotBool] = 1.0
    """Minimum free space in the folder for temporary files of each node, in GB."""
    min_write_mb_per_second: Annotated[float, Field(ge=0), NotBool] = 1.0
    """Minimum speed at which a node writes a file to disk, in MB/s. A node is slow if it is below this speed, and the
    median of the other nodes is above it."""
    exclude_hours: Annotated[float, Field(gt=0, le=8760), NotBool] = 24.0
    """Time in hours for which the next segments exclude a node that failed a check."""
    max_excluded_nodes: Count | None = None
    """Maximum number of nodes that preflights may exclude at one time. Further nodes are only reported. Nodes that a
    person excluded do not count. Default (null): 5 % of the nodes of the training, at least 1."""


class HeartbeatConfig(Section):
    """Detection of hangs. Each rank counts steps that are much smaller than an iteration, and writes its count to
    train/heartbeat. If no rank makes progress for too long, the ranks write their stacks to train/logs/hangs, and the
    launcher ends the segment as crashed."""

    iterations: Annotated[float, Field(gt=0), NotBool] = 5.0
    """The training hangs if no rank makes progress for this many times the usual iteration (the median of the segment),
    plus `seconds`. For saves, the longest save of the segment is used instead of the usual iteration."""
    seconds: Annotated[float, Field(gt=0), NotBool] = 60.0
    """Number of seconds to add to the limit of iterations, validations and replays."""
    save_seconds: Annotated[float, Field(gt=0), NotBool] = 600.0
    """Number of seconds to add to the limit of saves, because a busy file system can delay them by minutes."""
    first_minutes: Annotated[float, Field(gt=0), NotBool] = 30.0
    """Limit in minutes for everything that has not been measured in this segment yet: start, load, the first iteration
    (kernels are compiled), the first validation, the first replay and the first save."""


class SpikeConfig(Section):
    """Detection of spikes: values of the gradient norm or the loss far above those of the last iterations."""

    window_iterations: Annotated[int, Field(ge=16), NotBool] = 128
    """Number of past iterations over which the usual gradient norm and the usual loss (their medians) are computed."""
    deviations: Annotated[float, Field(gt=0), NotBool] = 6.0
    """A gradient norm or loss is a spike if its logarithm exceeds the logarithm of its usual value (the median over
    `window_iterations`) by more than this many robust standard deviations (1.4826 x the median absolute deviation of
    the logarithms)."""
    action: Literal["log", "skip", "roll_back"] = "log"
    """Reaction to a spike. `log`: record the spike and the texts of its samples. `skip`: also skip the update of an
    iteration whose gradient norm is a spike. `roll_back`: also return to the checkpoint before the spike and skip the
    samples of the spike."""


class DivergenceConfig(Section):
    """Detection of slow divergence: a loss that climbs for tens to thousands of iterations."""

    window_iterations: Annotated[int, Field(ge=512), NotBool] = 4096
    """Number of past iterations within which the lowest level of the loss is searched. A level is the median loss of 48
    iterations."""
    least_rise: Annotated[float, Field(gt=0), NotBool] = 0.03
    """Smallest rise of the loss above its lowest level that is a divergence, as a fraction of this level."""
    deviations: Annotated[float, Field(gt=0), NotBool] = 6.0
    """Smallest rise of the logarithm of the loss that is a divergence, in standard deviations of the difference of two
    levels. The standard deviation is measured from the noise of the loss, so a noisy loss, as with small batches, must
    rise more."""
    action: Literal["log", "roll_back", "stop"] = "log"
    """Reaction to a divergence. `log`: record it once, and again only after 256 iterations without it. `roll_back`:
    also return to a checkpoint from before the divergence and skip all samples since it began. `stop`: end the training
    with status `failed`."""


class GuardsConfig(Section):
    """Guards: checks of the running training, and the reactions to what they find."""

    replicas_every_iterations: Positive | None = 100
    """Number of iterations between comparisons of all replicas of the model. Hashes of the weights, the optimizer state
    and the states of the random number generators are compared. If they differ, the segment ends, and the next segment
    resumes from the newest checkpoint. Replicas are also compared before each save and after each load. null: they are
    compared only before saves and after loads."""
    replay_every_iterations: Positive | None = None
    """Number of iterations between replays. In a replay, every replica computes the loss and the gradient of the same
    micro-batch, and the results are compared bit for bit, to find a rank that computes wrongly. With a single replica,
    each rank computes the micro-batch twice, which finds transient faults only. A replay takes the time of one
    micro-batch, or of two with a single replica. Default (null): no replays."""
    replay_action: Literal["log", "stop"] = "stop"
    """Reaction to a difference that a replay finds. `log`: record the ranks and nodes, and continue training. `stop`:
    also end the training with an error."""
    spike: Annotated[SpikeConfig | None, Field(examples=[{"deviations": 8.0, "action": "skip"}])] = SpikeConfig()
    """Detection of spikes in the gradient norm and the loss. null: no detection."""
    divergence: Annotated[DivergenceConfig | None, Field(examples=[{"least_rise": 0.05, "action": "stop"}])] = (
        DivergenceConfig()
    )
    """Detection of slow divergence of the loss. null: no detection."""
    non_finite: Literal["skip", "roll_back", "stop"] = "skip"
    """Reaction to a loss or gradient that is not finite. The update is always skipped. `skip`: continue training.
    `roll_back`: return to an earlier checkpoint and skip samples, as for a spike. `stop`: end the training with status
    `failed`."""
    max_skipped_updates: Positive = 5
    """Maximum number of consecutive updates that guards skip. One more skipped update ends the training with status
    `failed`. If weights or optimizer state are not finite, the segment ends with status `crashed` instead, and the next
    one resumes from the newest good checkpoint."""
    roll_back_iterations: Positive = 10
    """A roll-back also skips the samples of this many iterations before the spike, the divergence or the non-finite
    value, because the gradient grows before the loss does."""
    max_roll_backs: Positive = 3
    """Maximum number of roll-backs by guards in a training. One more roll-back ends the training with status
    `failed`."""


class KernelsConfig(Section):
    """Implementations of attention, LayerNorm and optimizer. `bloomery doctor` shows which implementation `auto`
    selects on a machine, and why."""

    attention: Literal["auto", "eager", "sdpa", "flex", "flash"] = "auto"
    """Implementation of attention. `auto`: a fast one that runs on the machine. `sdpa`: torch's
    scaled_dot_product_attention. `flex`: torch's FlexAttention, compiled on a GPU. `flash`: the package flash-attn.
    `eager`: plain matrix products and softmax."""
    layer_norm: Literal["auto", "torch", "apex"] = "auto"
    """Implementation of LayerNorm. `auto`: a fast one that runs on the machine. `torch`: torch's own LayerNorm. `apex`:
    FusedLayerNorm of NVIDIA's apex."""
    optimizer: Literal["auto", "torch", "fused", "apex"] = "auto"
    """Implementation of the optimizer. `auto`: a fast one that runs on the machine. `torch`: torch's default
    implementation. `fused`: torch's fused implementation. `apex`: FusedAdam of NVIDIA's apex, or its FusedLAMB for
    the dialect `apex` with exact norms in a training with one process. For LAMB, `torch` and `fused` both mean
    Bloomery's own implementation."""
    compile: bool = False
    """Compile each transformer block with torch.compile."""


class LossScaleConfig(Section):
    """Dynamic loss scaling, which only `precision: fp16` uses."""

    initial_power: Count = 16
    """The initial loss scale is 2 to this power."""
    window_iterations: Positive = 500
    """Number of consecutive iterations without an overflow after which the loss scale is doubled."""
    hysteresis: Positive = 2
    """Number of overflows after which the loss scale is halved. Every further overflow halves it again, until an
    increase of the loss scale restarts the count."""
    minimum: Positive = 1
    """Minimum loss scale."""


class SkipRange(Section):
    """A range of training samples that is skipped. The model is not trained on these samples."""

    from_sample: Annotated[Count, Field(examples=[51200])]
    """Number of the first skipped sample. The training samples are counted from 0, in the order in which the training
    reads them (like `consumed_samples`)."""
    to_sample: Annotated[Positive, Field(examples=[56320])]
    """Number of the first sample after the skipped range."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        if self.to_sample <= self.from_sample:
            message = f"training: skip: to_sample {self.to_sample} must exceed from_sample {self.from_sample}"
            report([Contradiction(message, ("training.skip",), self.to_sample, f"more than {self.from_sample}")], info)
        return self


class EnergyConfig(Section):
    """Measurement of energy and CO2 on each node. It uses the package codecarbon offline, which Bloomery's optional
    dependencies `energy` install."""

    country: Annotated[str, Field(pattern="^[A-Z]{3}$", examples=["FRA"])]
    """Code of the country of the machine (ISO 3166-1 alpha-3, such as `FRA`), which determines the CO2 per kWh."""
    every_seconds: Annotated[float, Field(gt=0), NotBool] = 15.0
    """Time between two measurements of the power, in seconds."""
