"""The page of a training: one HTML file, figures inline, nothing loaded from anywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from statistics import median
from string import Template

from bloomery.base.errors import InputError
from bloomery.base.units import format_seconds
from bloomery.contracts.record import MetricsRecord, ValidationRecord
from monitoring import figures

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #2b2622; background: #fbf9f6; margin: 2rem auto; max-width: 84rem;
  padding: 0 1.5rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 0 0 .4rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1.2rem; }
section { background: white; border: 1px solid #e6e2dd; border-radius: .5rem; padding: .9rem 1.1rem; overflow-x: auto; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; margin: 0 0 1.2rem; } td, th { padding: .15rem .9rem .15rem 0; text-align: left; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
</style>
</head>
<body>
<h1>$title</h1>
$facts
<div class="figures">
$figures
</div>
</body>
</html>
""")


def training_page(name: str, records: Sequence[MetricsRecord], validations: Sequence[ValidationRecord]) -> str:
    """The page of run `name`. Raises InputError when there is no record."""
    if not records:
        raise InputError("no training record", where=name, expected="train/logs/metrics.jsonl with iterations")
    drawn = [
        ("Training loss", figures.metric(records, "loss", "loss")),
        *([("Validation loss by set", figures.validation(validations, "validation loss"))] if validations else []),
        ("Learning rate", figures.metric(records, "learning_rate", "learning rate")),
        ("Global batch", figures.metric(records, "global_batch_size", "samples")),
        ("Gradient norm", figures.metric(records, "grad_norm", "gradient norm", logarithmic=True)),
        ("Speed", figures.metric(records, "tokens_per_second", "tokens per second")),
    ]
    sections = [f"<section><h2>{escape(title)}</h2>{svg}</section>" for title, svg in drawn]
    if validations:
        sections.append(f"<section><h2>Validation loss, first and last</h2>{_validation_table(validations)}</section>")
    title = f"Training of {name}"
    return _PAGE.substitute(title=escape(title), facts=_facts(records, validations), figures="\n".join(sections))


def _facts(records: Sequence[MetricsRecord], validations: Sequence[ValidationRecord]) -> str:
    first, last = records[0], records[-1]
    rows = [
        ("iterations", f"{last.iteration:,} of {last.total_iterations:,}"),
        ("consumed", f"{last.consumed_samples:,} samples, {last.consumed_tokens:,} tokens"),
        ("training loss", f"{first.loss:.4f} → {last.loss:.4f}"),
        ("time in iterations", format_seconds(sum(record.seconds for record in records))),
        ("speed, median", f"{median(record.tokens_per_second for record in records):,.0f} tokens per second"),
        (
            "TFLOP/s of a device, median",
            f"{median(record.tflops_hardware for record in records):.4g} with recomputation, "
            f"{median(record.tflops_model for record in records):.4g} of the model",
        ),
        ("segments", str(len({record.segment for record in records}))),
    ]
    if validations:
        before, after = validations[0].validation_mean, validations[-1].validation_mean
        rows.insert(3, ("validation loss, mean over sets", f"{before:.4f} → {after:.4f}"))
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _validation_table(validations: Sequence[ValidationRecord]) -> str:
    first, last = validations[0], validations[-1]
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="number">{first.validation.get(name, math.nan):.4f}</td>'
        f'<td class="number">{loss:.4f}</td><td class="number">{math.exp(min(loss, 20.0)):,.1f}</td></tr>'
        for name, loss in sorted(last.validation.items())
    )
    head = '<tr><th>set</th><th class="number">first</th><th class="number">last</th><th class="number">perplexity</th>'
    return f"<table>{head}</tr>{rows}</table>"
