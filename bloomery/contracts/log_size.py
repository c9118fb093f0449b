"""Compute the bytes of all logs of a training: metrics, main log, TensorBoard, logs of ranks and files of segments.

Representative records are rendered with the code that renders the real ones, so a new column changes the result too.
Numbers that are measured in a training are printed with 16 or 17 significant digits, whatever their values are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.json_text import GREATEST
from bloomery.contracts.checkpoint import step_name
from bloomery.contracts.curves import AXES, scalars
from bloomery.contracts.logline import render, render_energy, render_validation
from bloomery.contracts.metrics_record import (
    EnergyRecord,
    MetricsRecord,
    Record,
    TrustRatios,
    ValidationRecord,
    dump_record,
)
from bloomery.spec.duration import has_speed, work_seconds
from bloomery.spec.layer_names import layer_name
from bloomery.spec.learning_rate import learning_rate_at
from bloomery.spec.parameters import declare, planned_rows
from bloomery.spec.save_points import is_due, saves_until
from bloomery.spec.trajectory import trajectory

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from bloomery.spec.trajectory import PlannedPosition, Trajectory

ENERGY_SECONDS = 300
"""Seconds between two records of the energy (`training.loop.energy`)."""
_POSITIONS = 64
"""Number of iterations, spread over the training, for which a record is rendered. Records of different iterations
differ in size only by their numbers of digits."""
_TIME = "2026-01-01T00:00:00Z"
_MEASURED = 0.12345678901234567
"""A measured number. Its text has the length of most doubles between 0.1 and 1."""
_RATIO = 0.123457
"""A trust ratio, which is rounded to six digits."""
_EVENT_FRAME = 8 + 4 + 4
"""Bytes around an event in a TensorBoard file (TFRecord): its length and two checksums."""
_EVENT_TIME = 9
"""Bytes of an event's wall time: a tag and a double."""
_SCALAR = 1 + 4
"""Bytes of a value in an event: a tag and a float."""
_BOARD_HEAD = 2 * _EVENT_FRAME + 72 + 26 + 30
"""Bytes of the first three events of a TensorBoard file: version, writer and the purge of later steps."""
_KERNELS = 240
"""Bytes of the line in main_log.txt that names the chosen kernels."""
_SEGMENT_FILES = 2 * 325
"""Bytes of segments/<n>.json and of its copy in segments/history."""
_BENCHMARK = 150
"""Bytes of Snakemake's benchmark of a segment."""
_RANK_LOG = 225
"""Bytes that a rank writes to its own log in a segment: process, coordinates and peak memory."""


@dataclass(frozen=True)
class LogSize:
    """Bytes of the logs of a training that is not interrupted."""

    metrics: int
    """metrics.jsonl."""
    main_log: int
    """main_log.txt."""
    tensorboard: int
    ranks: int
    """Logs of the ranks, and of the launcher of each segment."""
    segments: int
    """Files of the segments, and Snakemake's benchmarks of them."""

    @property
    def total(self) -> int:
        """Sum of all bytes."""
        return self.metrics + self.main_log + self.tensorboard + self.ranks + self.segments


def log_size(config: RunConfig, validation_sets: Sequence[str]) -> LogSize:
    """Return the size of the logs of a run with these validation sets, by name.

    Records of energy are counted only if the plan knows the run's duration, because they are written every 5 minutes.
    """
    training = config.training
    run = trajectory(config.model, training)
    iterations = run.iterations
    count = min(_POSITIONS, iterations)
    places = [run.after_iteration((2 * number + 1) * iterations // (2 * count) + 1) for number in range(count)]
    metrics = main_log = board = 0.0

    def add(records: float, one: Sequence[Record], lines: Sequence[list[str]]) -> None:
        nonlocal metrics, main_log, board
        metrics += records * _mean([len(dump_record(record)) + 1 for record in one])
        main_log += records * _mean([sum(len(line) + 1 for line in each) for each in lines])
        board += records * _mean([_board_bytes(record) for record in one])

    steps = [_step(config, place, run) for place in places]
    add(iterations, steps, [[render(record)] for record in steps])
    checks = -(-iterations // training.validation.every_iterations) if validation_sets else 0
    validations = [_validation(place, validation_sets) for place in places]
    add(checks, validations, [render_validation(record) for record in validations])
    if training.energy is not None and has_speed(config):
        energies = [_energy(place) for place in places]
        add(work_seconds(config) / ENERGY_SECONDS, energies, [[render_energy(record)] for record in energies])
    saves = saves_until(training.checkpoint, iterations) + (not is_due(training.checkpoint, iterations))
    segments = -(-iterations // training.segment.iterations) if training.segment.iterations else 1
    saved = f"saved checkpoint {step_name(iterations)}\n"
    started = (
        f"segment 1: starting, {iterations} iterations; {training.parallel.world_size} processes (tensor "
        f"{training.parallel.tensor} x pipeline {training.parallel.pipeline} x data {training.parallel.data}) on cuda, "
        f"{training.precision}\n"
    )
    ended = f"segment 1 ended with status finished after iteration {iterations}\n"
    checked = (
        f" validation after iteration {iterations}: mean loss 0.1234 over {len(validation_sets)} validation sets\n"
    )
    notes = segments * (len(started) + _KERNELS + len(ended)) + saves * len(saved)
    stamps = (3 * segments + saves) * len(f"[{_TIME}] ")
    # Rank 0 prints its notes to its own log too, and the launcher copies them to the log of the segment.
    printed = notes + checks * len(checked)
    return LogSize(
        metrics=round(metrics),
        main_log=round(main_log) + notes + stamps,
        tensorboard=round(board) + segments * len(AXES) * _BOARD_HEAD,
        ranks=2 * printed + segments * training.parallel.world_size * _RANK_LOG,
        segments=segments * (_SEGMENT_FILES + _BENCHMARK),
    )


def _mean(sizes: Sequence[int]) -> float:
    return sum(sizes) / max(1, len(sizes))


def _step(config: RunConfig, place: PlannedPosition, run: Trajectory) -> MetricsRecord:
    """Return the record of a step as the training would write it."""
    training = config.training
    scaled = training.precision == "fp16"
    return MetricsRecord(
        iteration=place.iteration,
        consumed_samples=place.consumed_samples,
        consumed_tokens=min(place.consumed_tokens, GREATEST),
        global_batch_size=place.global_batch_size,
        learning_rate=learning_rate_at(config.model, training, place.consumed_samples, place.consumed_tokens),
        loss=10 * _MEASURED,
        grad_norm=_MEASURED,
        seconds=_MEASURED,
        tokens_per_second=1e4 * _MEASURED,
        tflops_hardware=_MEASURED,
        tflops_model=_MEASURED,
        samples_per_second=1e2 * _MEASURED,
        total_iterations=run.iterations,
        segment=1,
        time=_TIME,
        mfu=_MEASURED if training.peak_tflops else None,
        sequence_length=place.sequence_length if training.curriculum is not None else None,
        loss_scale=2.0**training.loss_scale.initial_power if scaled else None,
        overflowed=False if scaled else None,
        fastest_rank=0,
        fastest_seconds=_MEASURED / 10,
        slowest_rank=training.parallel.world_size - 1,
        slowest_seconds=_MEASURED / 10,
        memory_bytes=10**9,
        trust_ratios=_trust_ratios(config),
    )


def _trust_ratios(config: RunConfig) -> TrustRatios | None:
    if config.training.optimizer.kind != "lamb":
        return None
    declared = declare(config.model, planned_rows(config))
    return dict.fromkeys(map(layer_name, declared), (_RATIO, _RATIO, _RATIO))


def _validation(place: PlannedPosition, names: Sequence[str]) -> ValidationRecord:
    return ValidationRecord(
        iteration=place.iteration,
        consumed_samples=place.consumed_samples,
        consumed_tokens=min(place.consumed_tokens, GREATEST),
        segment=1,
        time=_TIME,
        validation=dict.fromkeys(names, 10 * _MEASURED),
        validation_mean=10 * _MEASURED,
        seconds=10 * _MEASURED,
    )


def _energy(place: PlannedPosition) -> EnergyRecord:
    return EnergyRecord(
        iteration=place.iteration,
        consumed_samples=place.consumed_samples,
        consumed_tokens=min(place.consumed_tokens, GREATEST),
        segment=1,
        time=_TIME,
        energy_kwh=_MEASURED,
        co2_kg=_MEASURED,
        nodes=1,
        estimated_kwh=_MEASURED,
    )


def _board_bytes(record: Record) -> int:
    """Return the bytes of a record in the TensorBoard files of all axes (event.proto and summary.proto)."""
    tags = [tag.encode() for tag in scalars(record)]
    total = 0
    for axis in AXES:
        suffix = len(axis.suffix)
        values = sum(_field(_field(len(tag) + suffix) + _SCALAR) for tag in tags)
        step = 1 + _varint(getattr(record, axis.field))
        total += _EVENT_FRAME + _EVENT_TIME + step + _field(values)
    return total


def _field(length: int) -> int:
    """Return the bytes of a field of a protocol buffer with `length` bytes of content: tag, length and content."""
    return 1 + _varint(length) + length


def _varint(value: int) -> int:
    """Return the bytes of an integer in a protocol buffer, which holds 7 bits in each byte."""
    return max(1, -(-value.bit_length() // 7))
