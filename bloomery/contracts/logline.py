"""Megatron's log line: what people grep. Rendered from a record; columns that nobody measures are not printed."""

from __future__ import annotations

import math

from bloomery.contracts.record import MetricsRecord, ValidationRecord


def render(record: MetricsRecord) -> str:
    """The line of one iteration, in the format of BigScience's published logs."""
    return (
        f" iteration {record.iteration:8d}/{record.total_iterations:8d}"
        f" | consumed samples: {record.consumed_samples:12d}"
        f" | consumed tokens: {record.consumed_tokens:12d}"
        f" | elapsed time per iteration (s): {record.seconds:.2f}"
        f" | learning rate: {record.learning_rate:.3E}"
        f" | global batch size: {record.global_batch_size:5d}"
        f" | lm loss: {record.loss:.6E}"
        f" | grad norm: {record.grad_norm:.3f}"
        f" | samples per second: {record.samples_per_second:.3f}"
        f" | TFLOPs: {record.tflops_hardware:.2f} |"
    )


def render_validation(record: ValidationRecord) -> list[str]:
    """Lines of one validation, one a set."""
    return [
        f" validation loss at iteration {record.iteration} on {name}"
        f" | lm loss value: {loss:.6E} | lm loss PPL: {math.exp(min(loss, 20.0)):.6E} |"
        for name, loss in sorted(record.validation.items())
    ]
