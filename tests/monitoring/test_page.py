"""The page of a training: whole in one file, the same bytes for the same records, and short for long runs."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from bloomery.base.errors import InputError
from bloomery.contracts.record import MetricsRecord, ValidationRecord
from monitoring.page import training_page
from monitoring.series import reduce


def records(count: int, loss: float | None = None) -> list[MetricsRecord]:
    return [
        MetricsRecord(
            iteration=i,
            consumed_samples=8 * i,
            consumed_tokens=64 * i,
            global_batch_size=8,
            learning_rate=1e-3,
            loss=8 / math.sqrt(i) if loss is None else loss,
            grad_norm=1.0,
            seconds=0.1,
            tokens_per_second=640.0,
            tflops_hardware=0.1,
            tflops_model=0.1,
            samples_per_second=80.0,
            total_iterations=count,
            segment=1,
            time="2026-01-01T00:00:00Z",
        )
        for i in range(1, count + 1)
    ]


def validations(count: int) -> list[ValidationRecord]:
    return [
        ValidationRecord(
            iteration=i,
            consumed_samples=8 * i,
            consumed_tokens=64 * i,
            segment=1,
            time="2026-01-01T00:00:00Z",
            validation={"fr": 5.0 / i, "zh<s>": 6.0 / i},
            validation_mean=5.5 / i,
        )
        for i in range(1, count + 1)
    ]


def test_the_page_is_whole_and_loads_nothing() -> None:
    page = training_page("my <run>", records(40), validations(4))
    assert page.count("<svg") == 6
    assert "my &lt;run&gt;" in page
    assert "zh&lt;s&gt;" in page
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', page)
    for svg in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        ElementTree.fromstring(svg)


def test_equal_records_give_equal_bytes() -> None:
    assert training_page("a", records(40), validations(4)) == training_page("a", records(40), validations(4))


def test_a_run_without_validation_or_with_one_iteration_is_drawn() -> None:
    assert training_page("a", records(1), []).count("<svg") == 5


def test_a_diverged_loss_is_drawn() -> None:
    assert "<svg" in training_page("a", records(3, loss=math.nan), [])


def test_a_run_without_records_is_refused() -> None:
    with pytest.raises(InputError, match="no training record"):
        training_page("a", [], [])


def test_a_long_curve_keeps_its_mean_its_range_and_its_spike() -> None:
    y = np.ones(115_311)
    y[31_214] = 100.0
    curve = reduce(range(1, len(y) + 1), y.tolist(), points=800)
    assert len(curve.x) == 800
    assert curve.x[-1] == len(y)
    assert curve.high.max() == 100.0
    assert curve.low.min() == 1.0
    assert curve.merged
    short = reduce([1, 2, 3], [3.0, 2.0, 1.0])
    assert not short.merged
    assert short.mean.tolist() == [3.0, 2.0, 1.0]


def test_the_verb_writes_the_page(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from monitoring.cli import app

    logs = tmp_path / "run/train/logs"
    logs.mkdir(parents=True)
    lines = [record.model_dump_json() for record in [*records(5), *validations(1)]]
    (logs / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    output = tmp_path / "run/report/training.html"
    result = CliRunner().invoke(app, ["plots", "--run", str(tmp_path / "run"), "--output-html", str(output)])
    assert result.exit_code == 0, result.output
    assert "Training of run" in output.read_text()
