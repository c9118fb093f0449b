"""Test the verbs of monitoring."""

from __future__ import annotations

from pathlib import Path

from falling_loss import records, validations


def test_plots_writes_the_page_of_a_training(tmp_path: Path) -> None:
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
