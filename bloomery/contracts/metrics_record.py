"""Define metrics.jsonl, which has one record for each iteration, validation, event and energy measurement.

It is the authoritative record of a training, and all other logs are rendered from it.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from bloomery.base.json_text import parse_json
from bloomery.config.section import Count, Positive


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Finite = Annotated[float | None, BeforeValidator(_finite)]
"""Measured value; None if it is not finite, because JSON has no such numbers."""


def _time(value: str) -> str:
    if datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("a time in UTC, such as '2026-01-01T00:00:00Z'")
    return value


Time = Annotated[str, AfterValidator(_time)]
"""UTC time in ISO 8601."""


TrustRatios = dict[str, tuple[Finite, Finite, Finite]]
"""Least, median and greatest trust ratio of the parameters of each layer, in the order of the model."""


class MetricsRecord(BaseModel):
    """One optimizer step. Counters include the step itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    iteration: Count
    consumed_samples: Count
    consumed_tokens: Count
    global_batch_size: Positive
    learning_rate: float
    loss: Finite
    """Mean loss over the tokens of the global batch; None if it is not finite."""
    grad_norm: Finite
    """Norm of the whole gradient before clipping; None if it is not finite."""
    seconds: float
    tokens_per_second: float
    tflops_hardware: float
    """TFLOP/s of a device, including recomputation."""
    tflops_model: float
    """TFLOP/s of a device without recomputation."""
    samples_per_second: float
    total_iterations: Positive
    segment: Count
    time: Time
    """UTC time in ISO 8601."""
    mfu: float | None = None
    """Model TFLOP/s divided by the device's peak; None if no peak is configured."""
    sequence_length: Positive | None = None
    """Tokens of a sample; None unless a curriculum is configured."""
    skipped_samples: Count = 0
    """Number of consumed samples that the model was not trained on (`training.skip`, roll-backs)."""
    update_skipped: bool = False
    """Whether the weights were not updated, because a guard skipped the update or fp16 overflowed."""
    skipped_updates: Count = 0
    """Number of iterations without an update in the whole training so far, including this one."""
    non_finite: Count = 0
    """Number of iterations so far whose loss or gradient was not finite (`is_finite` is false)."""
    loss_scale: float | None = None
    """Loss scale with which the gradient was computed (fp16)."""
    overflowed: bool | None = None
    """Whether the scaled fp16 gradient overflowed while the loss scale could still be reduced.

    Such an overflow is part of the search for the loss scale.
    """
    fastest_rank: Count | None = None
    fastest_seconds: float | None = None
    """Seconds that the fastest rank spent computing in the forward and backward passes, without waiting for other
    ranks."""
    slowest_rank: Count | None = None
    slowest_seconds: float | None = None
    memory_bytes: Count | None = None
    """Most memory that any rank has held at once: GPU memory on a GPU, main memory on a CPU."""
    save_seconds: float | None = None
    """Seconds that the training waited for checkpoints between the previous iteration's record and this record. The
    time in which the training continued while a checkpoint was written is not included. None if the training did not
    wait."""
    trust_ratios: TrustRatios | None = None
    """Trust ratios of LAMB in this update. None for other optimizers, and if the update was skipped."""

    @property
    def is_finite(self) -> bool:
        """Whether loss and gradient were finite. An fp16 overflow during the loss-scale search does not count as
        non-finite."""
        return self.loss is not None and (self.grad_norm is not None or bool(self.overflowed))


class Stamp(TypedDict):
    """Position and time of a record: the fields that every kind of record has."""

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    segment: int
    time: str
    """UTC time in ISO 8601."""


class _Stamped(BaseModel):
    """Position and time of a record that is not a step: the fields of `Stamp`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    iteration: Count
    consumed_samples: Count
    consumed_tokens: Count
    segment: Count
    time: Time
    """UTC time in ISO 8601."""


class ValidationRecord(_Stamped):
    """Losses of the fixed, named validation sets after an iteration."""

    validation: dict[str, Finite]
    """Mean loss of each set."""
    validation_mean: Finite
    """Mean of the losses of all sets."""
    seconds: float | None = None
    """Duration of the validation. None in records of earlier versions."""


class EventRecord(_Stamped):
    """Event that a guard detected, and the guard's action."""

    event: Literal["spike", "divergence", "non_finite", "drift", "replay", "resumed"]
    action: Literal["log", "skip", "roll_back", "restart", "stop"]
    """`restart`: the segment ends, and the next one resumes from the newest good checkpoint."""
    message: str
    from_sample: Count | None = None
    """First sample that the event concerns; None if it concerns no particular samples."""
    to_sample: Count | None = None
    """First sample after those that the event concerns."""


class EnergyRecord(_Stamped):
    """Energy of a segment so far, summed over all its nodes."""

    energy_kwh: float
    co2_kg: float
    nodes: Positive
    """Number of nodes that were measured."""
    estimated_kwh: float | None = None
    """Part of `energy_kwh` that was estimated, because no sensor measured it.

    This concerns memory, and processors whose counters cannot be read. The value is 0 if everything was measured on
    every node, and None if it was not recorded.
    """


Record = MetricsRecord | ValidationRecord | EventRecord | EnergyRecord

_KIND_BY_KEY: dict[str, type[Record]] = {
    "validation": ValidationRecord,
    "event": EventRecord,
    "energy_kwh": EnergyRecord,
}


def parse_record(line: str | bytes) -> Record:
    """Parse one line of metrics.jsonl.

    Raises:
        ValueError: the line is not a record.
    """
    value = parse_json(line)
    return record_kind(value).model_validate(value)


def record_kind(value: Any) -> type[Record]:
    """Return the kind of record that a parsed line is, from its keys."""
    found = (kind for key, kind in _KIND_BY_KEY.items() if isinstance(value, dict) and key in value)
    return next(found, MetricsRecord)


def dump_record(record: Record) -> str:
    """Return a record's line of metrics.jsonl, without a newline. Fields that were not measured are left out.

    A loss or norm that was measured but is not finite is written as null.
    """
    fields = type(record).model_fields.items()
    absent = {name for name, field in fields if not field.is_required() and getattr(record, name) is None}
    return record.model_dump_json(exclude=absent)


def perplexity(loss: float | None) -> float | None:
    """Return the exponential of a loss; None if the loss is not finite.

    The result is at most e^20, because larger perplexities have no meaning.
    """
    return None if loss is None else math.exp(min(loss, 20.0))
