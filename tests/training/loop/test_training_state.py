"""Test which past records of metrics.jsonl a resumed training reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from step_records import SHARED, counts, step

from bloomery.contracts.metrics_record import Record, ValidationRecord, dump_record
from training.loop import training_state
from training.loop.training_state import _past_records


def write(path: Path, *records: Record) -> Path:
    path.write_text("".join(f"{dump_record(each)}\n" for each in records))
    return path


def validation(iteration: int) -> ValidationRecord:
    return ValidationRecord(**counts(iteration), **SHARED, validation={"fr": 1.0}, validation_mean=1.0)


def test_the_newest_record_of_each_iteration_counts_and_repeated_iterations_are_left_out(tmp_path: Path) -> None:
    # The first attempt crashed after iteration 9, and the second one after iteration 8.
    first = [step(number, loss=1.0) for number in range(1, 10)]
    second = [step(number, loss=2.0) for number in range(5, 9)]
    path = write(
        tmp_path / "metrics.jsonl", *first[:6], validation(6), *first[6:], *second[:2], validation(6), *second[2:]
    )
    steps, validated = _past_records(path, 7, 5)
    assert [(each.iteration, each.loss) for each in steps] == [(3, 1.0), (4, 1.0), (5, 2.0), (6, 2.0), (7, 2.0)]
    assert validated == 6
    steps, _ = _past_records(path, 7, 100)
    assert [each.iteration for each in steps] == list(range(1, 8))
    assert _past_records(tmp_path / "absent", 7, 5) == ([], 0)


def test_only_the_needed_end_of_a_long_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BLOOM's metrics have 115,311 iterations, and the divergence guard needs the last 4,427."""
    path = write(tmp_path / "metrics.jsonl", *(step(number) for number in range(1, 3001)))
    read = 0

    def counted(path: Path) -> object:
        nonlocal read
        for record in newest_records(path):
            read += 1
            yield record

    newest_records = training_state.newest_records
    monkeypatch.setattr(training_state, "newest_records", counted)
    steps, _ = _past_records(path, 3000, 500)
    assert [each.iteration for each in steps] == list(range(2501, 3001))
    assert read == 500
