"""Compute the speed of a training from the records of its iterations.

The speed is a quotient: all tokens divided by the seconds of all iterations. The median of the iterations' speeds is
larger if some iterations were slow or small, as in a batch ramp-up, so it is only shown beside the quotient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bloomery.contracts.metrics_record import MetricsRecord


@dataclass(frozen=True)
class Speed:
    """Speed over some iterations. The time of starts, validations and saves is not included."""

    iterations: int
    tokens: int
    """Tokens that the model was trained on in these iterations."""
    seconds: float
    """Sum of the durations of these iterations."""
    tokens_per_second: float
    """`tokens` divided by `seconds`."""
    median_tokens_per_second: float
    """Median of the speeds of the iterations."""
    tflops_hardware: float
    """TFLOP/s of one device, including recomputation: all operations divided by all seconds."""
    tflops_model: float
    """TFLOP/s of one device without recomputation: all operations divided by all seconds."""
    mfu: float | None
    """Model FLOPs utilization over these seconds; None if the device's peak is not configured."""


def speed_of(records: Sequence[MetricsRecord]) -> Speed:
    """Return the speed over the iterations of `records`, of which there must be at least one."""
    seconds = sum(record.seconds for record in records)
    # A record states a rate and the seconds over which it holds, so their product is the work of the iteration.
    tokens = sum(record.tokens_per_second * record.seconds for record in records)
    rates = [(record.mfu, record.seconds) for record in records if record.mfu is not None]
    return Speed(
        iterations=len(records),
        tokens=round(tokens),
        seconds=seconds,
        tokens_per_second=_quotient(tokens, seconds),
        median_tokens_per_second=median(record.tokens_per_second for record in records),
        tflops_hardware=_quotient(sum(record.tflops_hardware * record.seconds for record in records), seconds),
        tflops_model=_quotient(sum(record.tflops_model * record.seconds for record in records), seconds),
        mfu=_quotient(sum(rate * of for rate, of in rates), sum(of for _, of in rates)) if rates else None,
    )


def _quotient(total: float, seconds: float) -> float:
    return total / seconds if seconds else 0.0
