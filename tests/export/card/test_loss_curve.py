"""Test the figure of the card."""

from __future__ import annotations

import io
import json

from matplotlib.image import imread

from bloomery.contracts.read_metrics import valid_records
from export.card.loss_curve import loss_curve


def test_equal_records_give_equal_bytes_and_losses_that_are_not_finite_are_gaps(known, tmp_path):
    line = json.loads((known.paths.logs / "metrics.jsonl").read_text().splitlines()[0])
    path = tmp_path / "metrics.jsonl"
    lines = [
        line | {"iteration": n, "consumed_tokens": 10 * n, "loss": 9 / n if n != 5 else None} for n in range(1, 20)
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    steps, _ = valid_records(path)
    figure = loss_curve(steps, known.records.validations)
    assert figure == loss_curve(steps, known.records.validations)
    assert figure != loss_curve(steps[:-1], known.records.validations)
    height, width, _ = imread(io.BytesIO(figure), format="png").shape
    assert width > height > 200
