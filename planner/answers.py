"""Compute everything that `bloomery plan` reports, as one value. The report, the page and the JSON are rendered from
it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.contracts.disk_use import DiskUse, disk_use
from bloomery.spec.batch import ladder_rungs
from bloomery.spec.batch_scaling import describe_scaling, resolved_optimizer
from bloomery.spec.communication import Communication, communication
from bloomery.spec.duration import (
    bubble_fraction,
    has_speed,
    iteration_seconds,
    micro_batches,
    save_seconds,
    training_seconds,
    work_seconds,
)
from bloomery.spec.export_resources import ExportResources, resources_of_export
from bloomery.spec.hardware import gpus, grids
from bloomery.spec.learning_rate import warmup_iterations
from bloomery.spec.memory import StageMemory, bytes_per_parameter, ends_and_middle, memory, moment_count, usable_bytes
from bloomery.spec.overview import overview
from bloomery.spec.parameters import declare
from bloomery.spec.reference_seconds import reference_seconds
from bloomery.spec.weight_files import DTYPE_BYTES, export_dtype
from planner.notices import Notice, notices
from planner.planned_state import speed_at, state_at
from planner.risk import daly_interval, risk, young_interval

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


@dataclass(frozen=True)
class Times:
    """Duration and cost of a run. They are known only if a GPU or its speed is configured."""

    source: str
    """`stated` if the configuration states the speed, else `estimated`."""
    seconds_per_iteration: float
    """Seconds that an iteration with the full global batch takes."""
    tflops_hardware: float
    tflops_model: float
    mfu: float | None
    hfu: float | None
    days: float
    """Days that all iterations, saves and validations take, without failures."""
    node_hours: float
    gpu_hours: float
    energy_kwh: float | None
    co2_kg: float | None


@dataclass(frozen=True)
class Failures:
    """Cost of failures at the configured save interval and at the best one."""

    days_between_failures: float
    save_seconds: float
    save_is_stated: bool
    """Whether `plan.save_seconds` states the time of a save."""
    reference_seconds: float
    """Estimated seconds to compute the reference logits of a save. 0 if no GPU is configured."""
    interval_iterations: int
    lost_fraction: float
    young_iterations: int
    best_iterations: int
    """Best interval between saves by Daly's formula, in iterations."""
    best_lost_fraction: float
    days_with_failures: float | None
    """Expected days of the run, with failures and the configured save interval.

    None if failures are so frequent that the run makes no progress.
    """


@dataclass(frozen=True)
class Answers:
    """Everything that a plan reports."""

    name: str
    family: str
    parameters: int
    parameters_counted: int
    """Number of parameters, summed over the declared tensors."""
    vocabulary_rows: int
    world_size: int
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    gpus_per_replica: int
    stages: list[str]
    weights_bytes: int
    """Bytes of the exported weights."""
    checkpoint_bytes: int
    save_seconds: float
    bytes_per_parameter: int
    memory_bytes_per_gpu: dict[str, int]
    memory: dict[str, StageMemory]
    gpu: str | None
    gpu_memory_bytes: int | None
    fits: bool | None
    """Whether the fullest stage leaves at least 5 % of the GPU's memory free; None if no GPU is configured."""
    disk: DiskUse
    export: ExportResources | None
    """Resources that the job of the export requests; None if the run does not export its model."""
    batches: list[int]
    micro_batches: int
    """Number of micro-batches of a replica in an iteration with the full global batch."""
    iterations: int
    train_samples: int
    train_tokens: int
    peak_learning_rate: float
    batch_scaling: str | None
    """Rule by which the peak learning rate follows from the global batch size; None if the rate is stated."""
    warmup_iterations: int
    """Number of iterations of the warm-up; 0 without a warm-up."""
    end_learning_rate: float
    bubble_fraction: float
    """Share of an iteration with the full global batch during which a pipeline stage is idle."""
    communication: Communication
    model_flops: float
    times: Times | None
    failures: Failures | None
    notices: list[Notice]
    assumed: dict[str, str]
    notes: list[str]

    @property
    def days(self) -> float | None:
        """Days of the run without failures; None if no speed is known."""
        return self.times.days if self.times else None

    @property
    def node_hours(self) -> float | None:
        """Hours of the run multiplied by its number of nodes; None if no speed is known."""
        return self.times.node_hours if self.times else None


def answers(config: RunConfig) -> Answers:
    """Return the plan of a run."""
    model, training, plan = config.model, config.training, config.plan
    figures, parallel = overview(config), training.parallel
    found = memory(config)
    gpu = gpus()[plan.gpu] if plan.gpu is not None else None
    ends = ends_and_middle(found)
    full = training.batch.global_batch_size
    waits = bubble_fraction(parallel.pipeline, micro_batches(config, full))
    times, disk = _times(config), disk_use(config)
    return Answers(
        name=config.name,
        family=model.family,
        parameters=figures.parameters,
        parameters_counted=sum(each.count for each in declare(model, figures.vocabulary_rows)),
        vocabulary_rows=figures.vocabulary_rows,
        world_size=parallel.world_size,
        tensor_parallel=parallel.tensor,
        pipeline_parallel=parallel.pipeline,
        data_parallel=parallel.data,
        gpus_per_replica=parallel.tensor * parallel.pipeline,
        stages=figures.stages,
        weights_bytes=figures.parameters * DTYPE_BYTES[export_dtype(config.export, training.precision)],
        checkpoint_bytes=disk.checkpoint,
        save_seconds=save_seconds(config),
        bytes_per_parameter=bytes_per_parameter(training.precision, moment_count(training.optimizer)),
        memory_bytes_per_gpu={name: stage.total for name, stage in ends.items()},
        memory=ends,
        gpu=plan.gpu,
        gpu_memory_bytes=gpu.memory_bytes if gpu else None,
        fits=max(stage.total for stage in found) <= usable_bytes(gpu.memory_bytes) if gpu else None,
        disk=disk,
        export=resources_of_export(config) if config.export.enabled and model.family == "gpt" else None,
        batches=ladder_rungs(training.batch),
        micro_batches=micro_batches(config, full),
        iterations=figures.iterations,
        train_samples=figures.samples,
        train_tokens=figures.tokens,
        peak_learning_rate=resolved_optimizer(training).learning_rate,
        batch_scaling=describe_scaling(training.batch_scaling) if training.batch_scaling else None,
        warmup_iterations=warmup_iterations(model, training),
        end_learning_rate=state_at(config, iteration=figures.iterations).learning_rate,
        bubble_fraction=waits,
        communication=communication(config, full),
        model_flops=figures.model_flops,
        times=times,
        failures=_failures(config, times) if times else None,
        notices=notices(config),
        assumed=plan.assumed,
        notes=plan.notes,
    )


def _times(config: RunConfig) -> Times | None:
    plan, world = config.plan, config.training.parallel.world_size
    if not has_speed(config):
        return None
    total = training_seconds(config)
    seconds = iteration_seconds(config, config.training.batch.global_batch_size)
    end = state_at(config, iteration=overview(config).iterations)
    speed = speed_at(config, end, iteration_seconds(config, end.global_batch_size))
    gpu_hours = total * world / 3600
    watts = plan.watts_per_gpu or (gpus()[plan.gpu].watts if plan.gpu else None)
    energy = gpu_hours * watts * plan.pue / 1000 if watts else None
    grid = grids()[plan.grid] if plan.grid else None
    return Times(
        source="stated" if plan.tflops_hardware else "estimated",
        seconds_per_iteration=seconds,
        tflops_hardware=speed.tflops_hardware,
        tflops_model=speed.tflops_model,
        mfu=speed.mfu,
        hfu=speed.hfu,
        days=total / 86_400,
        node_hours=total / 3600 * -(-world // plan.gpus_per_node),
        gpu_hours=gpu_hours,
        energy_kwh=energy,
        co2_kg=energy * grid.grams_per_kwh / 1000 if energy is not None and grid else None,
    )


def _failures(config: RunConfig, times: Times) -> Failures | None:
    between, save = config.plan.faults.days_between_failures, save_seconds(config)
    if between is None or not save:
        return None
    mean, seconds = between * 86_400, times.seconds_per_iteration
    restart = config.plan.faults.restart_minutes * 60
    every = config.training.checkpoint.every_iterations
    best = max(1, round(daly_interval(save, mean) / seconds))
    now = risk(every * seconds, save, restart, mean)
    return Failures(
        days_between_failures=between,
        save_seconds=save,
        save_is_stated=config.plan.save_seconds is not None,
        reference_seconds=reference_seconds(config),
        interval_iterations=every,
        lost_fraction=now.lost_fraction,
        young_iterations=max(1, round(young_interval(save, mean) / seconds)),
        best_iterations=best,
        best_lost_fraction=risk(best * seconds, save, restart, mean).lost_fraction,
        days_with_failures=work_seconds(config) / 86_400 / (1 - now.lost_fraction) if now.lost_fraction < 1 else None,
    )
