"""metrics.jsonl and segments: what is read back is what counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import InputError
from bloomery.contracts.logline import render_validation
from bloomery.contracts.record import last_of_each, last_records, read_records, read_tail, validations
from bloomery.contracts.segment import Segment, SegmentStatus, read_segment, write_segment


def record(iteration: int, **changes: Any) -> dict[str, Any]:
    value = {
        "iteration": iteration,
        "consumed_samples": 8 * iteration,
        "consumed_tokens": 64 * iteration,
        "global_batch_size": 8,
        "learning_rate": 1e-3,
        "loss": 5.0,
        "grad_norm": 1.0,
        "seconds": 0.1,
        "tokens_per_second": 640.0,
        "tflops_hardware": 0.1,
        "tflops_model": 0.1,
        "samples_per_second": 80.0,
        "total_iterations": 10,
        "segment": 1,
        "time": "2026-01-01T00:00:00Z",
    }
    return value | changes


def validation(iteration: int, loss: float) -> dict[str, Any]:
    shared = {
        key: record(iteration)[key] for key in ("iteration", "consumed_samples", "consumed_tokens", "segment", "time")
    }
    return shared | {"validation": {"fr": loss, "en": loss + 1}, "validation_mean": loss + 0.5}


def write(path: Path, *values: dict[str, Any], tail: str = "") -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values) + tail)
    return path


def test_after_a_crash_the_later_record_of_an_iteration_counts(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m", record(1), record(2, loss=4.0), validation(2, 4.0), record(2, loss=3.0), validation(2, 3.0)
    )
    assert [(r.iteration, r.loss) for r in last_of_each(path)] == [(1, 5.0), (2, 3.0)]
    assert [r.validation["fr"] for r in validations(path)] == [3.0]


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    assert len(list(read_records(write(tmp_path / "m", record(1), tail='{"iteration": 2, "con')))) == 1


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"m:2: not a metrics record"):
        list(read_records(write(tmp_path / "m", record(1), {"iteration": 2})))
    with pytest.raises(InputError, match="no such file"):
        list(read_records(tmp_path / "absent"))


def test_the_tail_holds_the_last_records_and_passes_over_what_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "m", record(1), validation(1, 2.0), record(2), record(3))
    path.write_bytes(b"\xff\n{}\n\n" + path.read_bytes() + b'\xff\n{}\n\n{"iteration": 4, "unfin')
    assert [found.iteration for found in read_tail(path)] == [1, 1, 2, 3]
    assert [found.iteration for found in read_tail(path, limit=path.stat().st_size - 8)] == [1, 2, 3], "one is cut"
    assert read_tail(path, limit=20) == []
    assert read_tail(tmp_path / "absent") == []


@pytest.mark.parametrize("between", [0, 1, 700, 5000])
def test_the_newest_step_and_validation_are_found_however_far_back(tmp_path: Path, between: int) -> None:
    steps = [record(n) for n in range(8, 8 + between)]
    path = write(tmp_path / "m", validation(3, 9.0), record(7), validation(7, 2.0), *steps, tail='{"iteration": 9')
    step, found = last_records(path)
    assert step is not None
    assert step.iteration == 7 + between
    assert found is not None
    assert (found.iteration, found.validation_mean) == (7, 2.5)


def test_newest_records_of_files_that_lack_some(tmp_path: Path) -> None:
    assert last_records(tmp_path / "absent") == (None, None)
    assert last_records(write(tmp_path / "m")) == (None, None)
    assert last_records(write(tmp_path / "m", tail="no record\n")) == (None, None)
    assert last_records(write(tmp_path / "m", tail=json.dumps(record(1)))) == (None, None), "being written"
    step, found = last_records(write(tmp_path / "m", *map(record, range(1, 3000)), tail="{}\nno record\n"))
    assert step is not None
    assert (step.iteration, found) == (2999, None)


def test_lines_longer_than_what_is_read_at_once_are_read_whole(tmp_path: Path) -> None:
    many = validation(2, 2.0)
    many["validation"] = {f"set {n}": 1.0 for n in range(40_000)}
    path = write(tmp_path / "m", record(1), many, record(2), many, tail="\n")
    assert path.stat().st_size > 1_000_000
    step, found = last_records(path)
    assert step is not None
    assert step.iteration == 2
    assert found is not None
    assert len(found.validation) == 40_000
    assert [each.iteration for each in read_tail(path, limit=path.stat().st_size)] == [1, 2, 2, 2]


def test_validation_is_printed_a_set_a_line(tmp_path: Path) -> None:
    lines = render_validation(validations(write(tmp_path / "m", validation(7, 2.0)))[0])
    assert lines == [
        " validation loss at iteration 7 on en | lm loss value: 3.000000E+00 | lm loss PPL: 2.008554E+01 |",
        " validation loss at iteration 7 on fr | lm loss value: 2.000000E+00 | lm loss PPL: 7.389056E+00 |",
    ]


def test_a_segment_is_read_back(tmp_path: Path) -> None:
    segment = Segment(
        number=2,
        status=SegmentStatus.TIME_LIMIT,
        first_iteration=11,
        iteration=20,
        total_iterations=40,
        consumed_samples=160,
        consumed_tokens=1280,
        checkpoint="step00000020",
        identity="abc",
    )
    write_segment(tmp_path / "2.json", segment)
    assert read_segment(tmp_path / "2.json") == segment
    (tmp_path / "2.json").write_text('{"number": 2}')
    with pytest.raises(InputError, match="not a segment"):
        read_segment(tmp_path / "2.json")
