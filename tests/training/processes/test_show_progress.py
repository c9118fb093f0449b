from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from bloomery.contracts.metrics_record import MetricsRecord, dump_record
from training.processes.show_progress import TrainingProgressBar


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def line(iteration: int, **more: Any) -> str:
    values: dict[str, Any] = {"seconds": 2.0, "tokens_per_second": 12345.0} | more
    record = MetricsRecord(
        iteration=iteration,
        consumed_samples=8 * iteration,
        consumed_tokens=1024 * iteration,
        global_batch_size=8,
        learning_rate=1e-3,
        loss=4.5,
        grad_norm=1.0,
        tflops_hardware=1.0,
        tflops_model=1.0,
        samples_per_second=4.0,
        total_iterations=100,
        segment=1,
        time="2026-01-01T00:00:00Z",
        memory_bytes=1 << 30,
        **values,
    )
    return dump_record(record) + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as handle:
        handle.write(text)


def test_without_a_terminal_progress_lines_appear_at_intervals_and_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, clock = tmp_path / "metrics.jsonl", Clock()
    append(path, line(40))
    with TrainingProgressBar(path, now=clock) as bar:
        bar.update()
        assert capsys.readouterr().err == ""
        append(path, line(41) + line(42))
        bar.update()
        first = "iteration 42 of 100 (42 %): loss 4.5000, 12.3 k tokens/s, at most 1.0 GiB per rank, 1 min 56 s left\n"
        assert capsys.readouterr().err == first
        append(path, line(43))
        clock.seconds = 29
        bar.update()
        assert capsys.readouterr().err == ""
        clock.seconds = 30
        bar.update()
        assert "iteration 43 of 100" in capsys.readouterr().err
        append(path, line(100))
    assert "iteration 100 of 100 (100 %): loss 4.5000" in capsys.readouterr().err


def test_an_incomplete_line_is_read_after_it_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, clock = tmp_path / "metrics.jsonl", Clock()
    with TrainingProgressBar(path, now=clock) as bar:
        whole = line(1)
        append(path, whole[:20])
        bar.update()
        assert capsys.readouterr().err == ""
        append(path, whole[20:] + "damaged\n")
        bar.update()
        assert capsys.readouterr().err.startswith("iteration 1 of 100")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_with_messages_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    path = tmp_path / "metrics.jsonl"
    with TrainingProgressBar(path) as bar:
        append(path, line(7))
        bar.update()
        bar.show("a checkpoint was saved")
        append(path, line(8, skipped_samples=0))
        bar.update()
    shown = terminal.getvalue()
    assert "a checkpoint was saved" in shown
    assert "8/100" in shown
    assert "loss 4.5000, 12.3 k tokens/s, at most 1.0 GiB per rank, 3 min 4 s left" in shown


@pytest.mark.parametrize(
    ("columns", "shown", "left_out"),
    [
        (120, "12.3 k tokens/s, at most 1.0 GiB per rank", "none"),
        (80, "12.3 k tokens/s", "rank"),
        (60, "loss 4.5000", "tokens"),
    ],
)
def test_a_narrow_terminal_shortens_the_bar_and_not_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, shown: str, left_out: str
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    with TrainingProgressBar(tmp_path / "metrics.jsonl") as bar:
        append(tmp_path / "metrics.jsonl", line(42))
        bar.update()
    assert "42/100" in stream.getvalue()
    assert "1 min 56 s left" in stream.getvalue()
    assert shown in stream.getvalue()
    assert left_out not in stream.getvalue()


def test_the_speed_is_that_of_the_last_iterations_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.jsonl"
    with TrainingProgressBar(path) as bar:
        append(path, line(1, seconds=98.0, tokens_per_second=10.0) + line(2, seconds=2.0, tokens_per_second=510.0))
        bar.update()
    assert "loss 4.5000, 20 tokens/s" in capsys.readouterr().err
