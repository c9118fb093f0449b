"""Test which records of metrics.jsonl are valid when they are read back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import InputError
from bloomery.contracts.curves import scalars
from bloomery.contracts.logline import render_energy, render_event, render_validation
from bloomery.contracts.metrics_record import (
    EnergyRecord,
    EventRecord,
    MetricsRecord,
    Stamp,
    ValidationRecord,
    dump_record,
    parse_record,
)
from bloomery.contracts.read_metrics import (
    events,
    find_step,
    last_records,
    newest_records,
    read_records,
    read_tail,
    total_energy,
    valid_records,
)


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


def test_after_a_crash_the_last_record_of_an_iteration_is_valid(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m", record(1), record(2, loss=4.0), validation(2, 4.0), record(2, loss=3.0), validation(2, 3.0)
    )
    assert [(r.iteration, r.loss) for r in valid_records(path)[0]] == [(1, 5.0), (2, 3.0)]
    assert [r.validation["fr"] for r in valid_records(path)[1]] == [3.0]


def test_records_after_the_checkpoint_of_a_roll_back_are_invalid(tmp_path: Path) -> None:
    # A roll-back skips samples, so the training may end with fewer iterations than it has recorded.
    before = [record(1), record(2), record(3), record(4), validation(4, 9.0), record(5), validation(5, 9.0)]
    path = write(tmp_path / "m", *before, validation(2, 4.0), record(3, loss=3.0), record(4, loss=2.0))
    assert [(r.iteration, r.loss) for r in valid_records(path)[0]] == [(1, 5.0), (2, 5.0), (3, 3.0), (4, 2.0)]
    assert [(r.iteration, r.validation_mean) for r in valid_records(path)[1]] == [(2, 4.5)]
    step = find_step(path, 5)
    assert step is not None, "an invalid record can still be found by its iteration"
    assert step.loss == 5.0


def event(iteration: int, **changes: Any) -> dict[str, Any]:
    shared = {key: record(iteration)[key] for key in ("consumed_samples", "consumed_tokens", "segment", "time")}
    words = {"iteration": iteration, "event": "spike", "action": "log", "message": "grew"}
    return shared | words | changes


def energy(segment: int, kwh: float, **changes: Any) -> dict[str, Any]:
    shared = {key: record(1)[key] for key in ("iteration", "consumed_samples", "consumed_tokens", "time")}
    return shared | {"segment": segment, "energy_kwh": kwh, "co2_kg": kwh / 2, "nodes": 2} | changes


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_written_as_null_and_read_as_none(tmp_path: Path, value: float) -> None:
    step = MetricsRecord.model_validate(record(1, loss=value, grad_norm=value, skipped_updates=1, non_finite=1))
    check = ValidationRecord.model_validate(
        validation(1, 2.0) | {"validation": {"fr": value}, "validation_mean": value}
    )
    lines = [dump_record(step), dump_record(check)]
    assert json.loads(lines[0], parse_constant=pytest.fail)["loss"] is None
    assert [parse_record(line) for line in lines] == [step, check]
    assert (step.loss, step.grad_norm, check.validation["fr"], check.validation_mean) == (None, None, None, None)


def test_columns_without_a_measurement_are_not_written() -> None:
    kept = json.loads(dump_record(MetricsRecord.model_validate(record(1))))
    assert {"mfu", "sequence_length", "loss_scale", "overflowed", "slowest_rank"}.isdisjoint(kept)
    assert (kept["skipped_updates"], kept["update_skipped"]) == (0, False)


def test_events_and_energy_are_separate_records(tmp_path: Path) -> None:
    told = event(2, from_sample=8, to_sample=24)
    path = write(tmp_path / "m", record(1), energy(1, 0.5), record(2), told, validation(2, 2.0), told)
    assert [found.event for found in events(path)] == ["spike", "spike"]
    assert [found.iteration for found in valid_records(path)[0]] == [1, 2]
    step, check = last_records(path)
    assert step is not None
    assert check is not None
    assert (step.iteration, check.iteration) == (2, 2)
    assert render_event(events(path)[0]) == (
        "[2026-01-01T00:00:00Z] spike at iteration 2: grew; samples 8 to 23; action: log"
    )


def test_energy_is_summed_over_segments_and_their_restarts(tmp_path: Path) -> None:
    # Segment 2 was stopped and restarted, so its energy meter starts at 0 again.
    rows = [energy(1, 0.0), energy(1, 1.0), energy(1, 3.0), energy(2, 4.0), energy(2, 0.0), energy(2, 5.0)]
    found = total_energy(write(tmp_path / "m", record(1), *rows))
    assert found is not None
    assert (found.energy_kwh, found.co2_kg, found.nodes) == (12.0, 6.0, 2)
    assert found.estimated_kwh is None, "records of older versions do not state the estimated energy"
    assert total_energy(write(tmp_path / "n", record(1))) is None


def test_energy_until_an_earlier_iteration_leaves_out_later_records(tmp_path: Path) -> None:
    path = write(tmp_path / "m", energy(1, 1.0), energy(1, 3.0, iteration=2), energy(2, 4.0, iteration=3))
    found = [total_energy(path, last) for last in (0, 1, 2, None)]
    assert [None if each is None else each.energy_kwh for each in found] == [None, 1.0, 3.0, 7.0]


def test_estimated_energy_is_summed_only_if_every_segment_states_it(tmp_path: Path) -> None:
    rows = [energy(1, 2.0, estimated_kwh=0.5), energy(1, 4.0, estimated_kwh=1.0), energy(2, 2.0, estimated_kwh=0.25)]
    found = total_energy(write(tmp_path / "m", *rows))
    assert found is not None
    assert (found.energy_kwh, found.estimated_kwh) == (6.0, 1.25)
    assert render_energy(found) == (
        "[2026-01-01T00:00:00Z] energy of segment 2 up to iteration 1: 6 kWh (21 % estimated), 3 kg CO2, 2 nodes"
    )
    half_said = total_energy(write(tmp_path / "n", energy(0, 1.0), *rows))
    assert half_said is not None
    assert (half_said.energy_kwh, half_said.estimated_kwh) == (7.0, None)


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    assert len(list(read_records(write(tmp_path / "m", record(1), tail='{"iteration": 2, "con')))) == 1


@pytest.mark.parametrize(
    "damage",
    [
        b"\0\0\0",
        b'{"iteration": 2}',
        b'{"loss": 1e999}',
        b'{"iteration": NaN}',
        b"\xff",
        b"[" * 100_000,
        b'{"event": "spike", "cut',
        b"9" * 5000,
        b'{"event": "\\ud800"}',
    ],
)
def test_a_damaged_line_is_skipped_counted_and_reported_once(
    tmp_path: Path, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "m", record(1))
    path.write_bytes(path.read_bytes() + damage + b"\n" + damage + b"\n" + path.read_bytes().replace(b"1,", b"2,", 1))
    for _ in range(2):
        assert [found.iteration for found in read_records(path)] == [1, 2]
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{path}: 2 damaged lines are skipped; the first is line 2: " in said
    assert [found.iteration for found in read_tail(path)] == [1, 2]


def test_records_of_a_missing_file_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_records(tmp_path / "absent"))


def test_the_tail_holds_the_last_records_and_ignores_other_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "m", record(1), validation(1, 2.0), record(2), record(3))
    path.write_bytes(b"\xff\n{}\n\n" + path.read_bytes() + b'\xff\n{}\n\n{"iteration": 4, "unfin')
    assert [found.iteration for found in read_tail(path)] == [1, 1, 2, 3]
    assert [found.iteration for found in read_tail(path, limit=path.stat().st_size - 8)] == [1, 2, 3], (
        "the first line of the tail is truncated"
    )
    assert read_tail(path, limit=20) == []
    assert read_tail(tmp_path / "absent") == []
    assert [found.iteration for found in newest_records(path)] == [3, 2, 1, 1]
    assert list(newest_records(tmp_path / "absent")) == []


@pytest.mark.parametrize("between", [0, 1, 700, 5000])
def test_the_newest_step_and_validation_are_found_at_any_distance(tmp_path: Path, between: int) -> None:
    steps = [record(n) for n in range(8, 8 + between)]
    path = write(tmp_path / "m", validation(3, 9.0), record(7), validation(7, 2.0), *steps, tail='{"iteration": 9')
    step, found = last_records(path)
    assert step is not None
    assert step.iteration == 7 + between
    assert found is not None
    assert (found.iteration, found.validation_mean) == (7, 2.5)


def test_last_records_returns_none_for_missing_records(tmp_path: Path) -> None:
    assert last_records(tmp_path / "absent") == (None, None)
    assert last_records(write(tmp_path / "m")) == (None, None)
    assert last_records(write(tmp_path / "m", tail="no record\n")) == (None, None)
    assert last_records(write(tmp_path / "m", tail=json.dumps(record(1)))) == (None, None), (
        "a line without a line feed is still being written"
    )
    step, found = last_records(write(tmp_path / "m", *map(record, range(1, 3000)), tail="{}\nno record\n"))
    assert step is not None
    assert (step.iteration, found) == (2999, None)


def test_lines_longer_than_a_read_block_are_read_completely(tmp_path: Path) -> None:
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


def test_validation_is_printed_with_one_line_a_set(tmp_path: Path) -> None:
    lines = render_validation(valid_records(write(tmp_path / "m", validation(7, 2.0)))[1][0])
    assert lines == [
        " validation loss at iteration 7 on en | lm loss value: 3.000000E+00 | lm loss PPL: 2.008554E+01 |",
        " validation loss at iteration 7 on fr | lm loss value: 2.000000E+00 | lm loss PPL: 7.389056E+00 |",
        " validation loss at iteration 7, mean over 2 sets | lm loss value: 2.500000E+00 | lm loss PPL: 1.218249E+01 |",
    ]


def test_every_record_has_the_fields_of_a_stamp() -> None:
    for kind in (EventRecord, EnergyRecord, ValidationRecord, MetricsRecord):
        assert Stamp.__annotations__.keys() <= kind.model_fields.keys()


def test_trust_ratios_are_written_and_read_by_layer() -> None:
    ratios = {"embedding": (0.123457, 0.5, 2.0), "block 10": (1e-5, 1.0, 2.0), "block 9": (None, 1.0, 3.0)}
    given = MetricsRecord.model_validate(record(1, trust_ratios=ratios))
    line = dump_record(given)
    assert parse_record(line) == given
    assert list(parse_record(line).trust_ratios) == list(ratios), "the order of the layers is kept"
    assert "trust_ratios" not in dump_record(MetricsRecord.model_validate(record(1)))
    values = scalars(given)
    assert (values["trust-ratio/block 10 least"], values["trust-ratio/block 9 greatest"]) == (1e-5, 3.0)
    assert "trust-ratio/block 9 least" not in values
