"""Make the folder of a run at some moment of the workflow, using only code of bloomery and not running any stage."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_json
from bloomery.checks.load_config import validate_config
from bloomery.config.part_input import PartInput
from bloomery.config.run import RunConfig
from bloomery.contracts.checkpoint import CheckpointManifest, step_name, write_manifest
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.metrics_record import MetricsRecord, ValidationRecord
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_prefix import SamplePrefix
from bloomery.contracts.segment import Segment, SegmentStatus, write_segment
from bloomery.orchestration.prepare_run import Part, write_sections
from bloomery.spec.batch import steps
from bloomery.spec.trajectory import trajectory

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC).timestamp()


def configuration(**training: Any) -> RunConfig:
    """Return the configuration of a run of 2 x 3 x 2 processes, with a batch ramp-up from 12 to 48."""
    values = {
        "train_samples": 48 * 1000,
        "parallel": {"tensor": 2, "pipeline": 3, "data": 2},
        "batch": {
            "micro_batch_size": 2,
            "global_batch_size": 48,
            "rampup": {"start": 12, "increment": 12, "samples": 3600},
        },
        "optimizer": {"learning_rate": 1e-3},
    }
    return validate_config(
        {
            "name": "big",
            "sources": [{"name": "s", "kind": "jsonl", "paths": ["x"]}],
            "model": {"layers": 6, "hidden_size": 64, "heads": 4, "sequence_length": 128},
            "training": values | training,
        }
    )


def make_run(root: Path, config: RunConfig, shards: int = 4) -> RunPaths:
    """Write the section of every stage."""
    paths = RunPaths.of(str(root), config.name)
    write_sections(
        config.model_copy(update={"root": str(root)}), [Part("s", n, PartInput(["x"])) for n in range(shards)]
    )
    return paths


def write_metrics(
    paths: RunPaths, config: RunConfig, iterations: int, *, slot_seconds: float = 0.5, segments: int = 1
) -> None:
    """Write records of the first iterations, one per second until NOW - 60. All pipeline slots take `slot_seconds`.

    The iterations belong to `segments` segments of equal length.
    """
    training = config.training
    unit, bubble = training.batch.micro_batch_size * training.parallel.data, training.parallel.pipeline - 1
    total = trajectory(config.model, training).iterations
    lines = []
    for step in steps(training.batch, training.train_samples):
        if step.iteration > iterations:
            break
        seconds = slot_seconds * (step.global_batch_size / unit + bubble)
        consumed = step.consumed_samples + step.global_batch_size
        tokens = step.global_batch_size * config.model.sequence_length
        segment = 1 + (step.iteration - 1) * segments // iterations
        time = datetime.fromtimestamp(NOW - 60 - (iterations - step.iteration), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        record = MetricsRecord(
            iteration=step.iteration,
            consumed_samples=consumed,
            consumed_tokens=consumed * config.model.sequence_length,
            global_batch_size=step.global_batch_size,
            learning_rate=1e-3,
            loss=10 / (1 + step.iteration / 100),
            grad_norm=0.5,
            seconds=seconds,
            tokens_per_second=tokens / seconds,
            tflops_hardware=1.0,
            tflops_model=1.0,
            samples_per_second=step.global_batch_size / seconds,
            total_iterations=total,
            segment=segment,
            time=time,
        )
        lines.append(record.model_dump_json(exclude_none=True))
        if step.iteration % 100 == 0:
            validation = ValidationRecord(
                iteration=step.iteration,
                consumed_samples=consumed,
                consumed_tokens=consumed,
                segment=segment,
                time=time,
                validation={"fr": 3.0, "en": 4.0},
                validation_mean=3.5,
            )
            lines.append(validation.model_dump_json())
    paths.logs.mkdir(parents=True, exist_ok=True)
    (paths.logs / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))


def write_ended(
    paths: RunPaths, number: int, status: SegmentStatus, iteration: int, *, in_chain: bool = True, message: str = ""
) -> None:
    """Write the file of an ended segment to the history. With `in_chain`, also write it to the chain of segments."""
    segment = Segment(
        number=number,
        status=status,
        first_iteration=1,
        iteration=iteration,
        total_iterations=1000,
        consumed_samples=0,
        consumed_tokens=0,
        checkpoint=step_name(iteration),
        identity="x",
        message=message,
    )
    write_segment(paths.segments / "history" / f"{number}-1.json", segment)
    if in_chain:
        write_segment(paths.segments / f"{number}.json", segment)


def write_checkpoint(paths: RunPaths, iteration: int, size: int) -> None:
    """Write a finished checkpoint whose manifest lists one file of `size` bytes."""
    folder = paths.checkpoints / step_name(iteration)
    folder.mkdir(parents=True)
    manifest = CheckpointManifest(
        identity="x",
        prefix=SamplePrefix(samples=0, stages=[], datasets={}),
        config={},
        iteration=iteration,
        consumed_samples=0,
        consumed_tokens=0,
        tensor_parallel=2,
        pipeline_parallel=3,
        data_parallel=2,
        vocabulary_size=1000,
        vocabulary_rows=1024,
        layers=10,
        versions={},
        files={"a.pt": FileEntry(bytes=size, sha256="0" * 64)},
    )
    write_manifest(folder, manifest)


def touch_shards(folder: Path, shards: int, suffix: str = ".json") -> None:
    """Write a file for each of the first shards of source `s` in a stage's folder."""
    for number in range(shards):
        write_json(folder / "s" / f"{number:05d}{suffix}", {})
