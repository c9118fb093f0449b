"""Test the metrics writer's files, also across a restart.

It writes metrics.jsonl, the log, and TensorBoard files with three kinds of x-axis.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from step_records import LENGTH, SHARED, counts, step

from bloomery.base.errors import ResourceError
from bloomery.contracts.logline import read_log
from bloomery.contracts.metrics_record import EnergyRecord, EventRecord, MetricsRecord, Record, ValidationRecord
from bloomery.contracts.read_metrics import events, total_energy, valid_records
from training.loop.metrics_writer import MetricsWriter


def validation(iteration: int, mean: float = 2.5) -> ValidationRecord:
    losses = {"fr": mean - 0.5, "zh": mean + 0.5}
    return ValidationRecord.model_validate(counts(iteration) | SHARED | {"validation": losses, "validation_mean": mean})


def write(folder: Path, after: int, records: list[Record]) -> None:
    writer = MetricsWriter(folder, **counts(after))
    for record in records:
        match record:
            case MetricsRecord():
                writer.step(record)
            case ValidationRecord():
                writer.validation(record)
            case EventRecord():
                writer.event(record)
            case EnergyRecord():
                writer.energy(record)
    writer.close()


def curves(folder: Path) -> dict[str, dict[int, float]]:
    """Read a folder of TensorBoard with its own reader, as a mapping tag -> step -> value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder)).Reload()
    return {tag: {event.step: event.value for event in reader.Scalars(tag)} for tag in reader.Tags()["scalars"]}


def test_tensorboard_has_three_axes_and_a_restart_purges_later_points(
    tmp_path: Path,
) -> None:
    event = EventRecord.model_validate(
        counts(2) | SHARED | {"event": "spike", "action": "log", "message": "grew", "from_sample": 8, "to_sample": 16}
    )
    used = {"energy_kwh": 0.5, "co2_kg": 0.25, "nodes": 1, "estimated_kwh": 0.125}
    energy = EnergyRecord.model_validate(counts(2) | SHARED | used)
    hurt = step(3, loss=math.nan, grad_norm=math.nan, update_skipped=True, skipped_updates=1, non_finite=1)
    blown = validation(4, math.nan)
    write(tmp_path, 0, [step(1), step(2), event, validation(2), energy, hurt, step(4), blown, step(5)])
    with (tmp_path / "metrics.jsonl").open("a") as handle:
        handle.write('{"iteration": 6, "unfin')
    # The training was killed at iteration 6 and resumed from the checkpoint of iteration 3.
    write(tmp_path, 3, [step(4, loss=1.0), step(5, loss=1.5)])

    steps, checks = valid_records(tmp_path / "metrics.jsonl")
    assert [(each.iteration, each.loss) for each in steps] == [(1, 4.9), (2, 4.8), (3, None), (4, 1.0), (5, 1.5)]
    assert [each.iteration for each in checks] == [2]
    assert events(tmp_path / "metrics.jsonl") == [event]
    assert total_energy(tmp_path / "metrics.jsonl") == energy

    log = [line for _, line in read_log(tmp_path / "main_log.txt")]
    assert [line.iteration for line in log] == [1, 2, 3, 4, 5, 4, 5]
    assert [line.skipped_iterations for line in log[:4]] == [0, 0, 1, 0]
    text = (tmp_path / "main_log.txt").read_text()
    assert "validation loss at iteration 2, mean over 2 sets | lm loss value: 2.500000E+00" in text
    assert "spike at iteration 2: grew; samples 8 to 15; action: log" in text
    assert "0.5 kWh (25 % estimated), 0.25 kg CO2" in text

    board = tmp_path / "tensorboard"
    for folder, suffix, factor in (
        (board, "", 1),
        (board / "vs-samples", " vs samples", 8),
        (board / "vs-tokens", " vs tokens", 8 * LENGTH),
    ):
        drawn = curves(folder)
        loss = drawn[f"lm-loss-training/lm loss{suffix}"]
        assert loss == pytest.approx({factor * n: value for n, value in ((1, 4.9), (2, 4.8), (4, 1.0), (5, 1.5))})
        assert drawn[f"skipped/updates{suffix}"][3 * factor] == 1
        assert drawn[f"lm-loss-validation/zh/perplexity{suffix}"] == pytest.approx({2 * factor: math.exp(3.0)})
        assert drawn[f"lm-loss-validation/mean/lm loss{suffix}"] == {2 * factor: 2.5}
        assert drawn[f"energy/kWh of the segment{suffix}"] == {2 * factor: 0.5}
        assert drawn[f"energy/estimated part of the kWh of the segment{suffix}"] == {2 * factor: 0.125}
        assert {tag.split("/")[0] for tag in drawn} == {
            *("lm-loss-training", "lm-loss-validation", "learning-rate", "batch-size", "grad-norm", "skipped"),
            *("iteration-time", "throughput", "energy"),
        }
        assert {tag for tag in drawn if "TFLOPs" in tag} == {
            f"throughput/hardware TFLOPs{suffix}",
            f"throughput/model TFLOPs{suffix}",
        }


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 300 kB."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mounting a small disk needs root: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


# The full disk also raises an exception in TensorBoard's own thread.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_raises_a_clear_error_and_complete_lines_remain(small_disk: Path) -> None:
    writer = MetricsWriter(small_disk, **counts(0))

    def fill() -> None:
        for iteration in range(1, 10_000):
            writer.step(step(iteration))

    with pytest.raises(ResourceError, match="the disk is full"):
        fill()
    writer.close()
    kept = [record.iteration for record in valid_records(small_disk / "metrics.jsonl")[0]]
    assert kept == list(range(1, len(kept) + 1))
    assert len(kept) > 10


def test_without_tensorboard_all_other_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    write(tmp_path, 0, [step(1)])
    assert "no TensorBoard files" in capsys.readouterr().err
    assert [each.iteration for each in valid_records(tmp_path / "metrics.jsonl")[0]] == [1]
    assert not (tmp_path / "tensorboard").exists()
