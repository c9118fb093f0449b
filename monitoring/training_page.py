"""Render the page of a training: one HTML file with inline figures, which loads no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

from bloomery.base.errors import InputError
from bloomery.base.units import format_energy, format_finite, format_seconds
from bloomery.contracts.metrics_record import EnergyRecord, EventRecord, MetricsRecord, ValidationRecord, perplexity
from bloomery.detect.speed import speed_of
from monitoring import plots

_TFLOPS = {"tflops_hardware": "hardware (recomputation counted)", "tflops_model": "model"}
_RANKS = {"slowest_seconds": "slowest", "fastest_seconds": "fastest"}
_WHERE_MEASURED = (
    ("sequence_length", "Sequence length", "tokens"),
    ("loss_scale", "Loss scale", "loss scale"),
    ("mfu", "Model FLOPs utilization", "MFU"),
)
"""Columns that only some trainings have: name of the column, title of the figure, label of the axis."""
_EVENTS_SHOWN = 50
_NO_CELL = "<td></td>"

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --paper: #fbf9f6; --card: white; --ink: #2b2622; --line: #e6e2dd; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --card: #1e2126; --ink: #e8e6e1; --line: #30343b; }
  svg { filter: invert(.9) hue-rotate(180deg) brightness(1.3); }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 84rem; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 0 0 .4rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.2rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1.1rem;
  overflow-x: auto; }
section.wide { grid-column: 1 / -1; }
svg { width: 100%; height: auto; }
.note { font-size: .85rem; opacity: .8; } .stale { border-left: .3rem solid #c77700; padding-left: .7rem; }
table { border-collapse: collapse; margin: 0 0 1.2rem; } td, th { padding: .15rem .9rem .15rem 0; text-align: left; }
td { overflow-wrap: anywhere; } td.short { white-space: nowrap; } td.long { min-width: 14rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
</style>
</head>
<body>
<h1>$title</h1>
$stale<p class="note">$origin</p>
$facts
<div class="figures">
$figures
</div>
</body>
</html>
""")


def training_page(
    name: str,
    records: Sequence[MetricsRecord],
    validations: Sequence[ValidationRecord],
    events: Sequence[EventRecord] = (),
    energy: EnergyRecord | None = None,
    *,
    goodput: str | None = None,
    origin: str = "",
    stale: str | None = None,
) -> str:
    """Return the HTML page of the run `name`.

    Args:
        name: name of the run.
        records: records of the iterations, in order.
        validations: records of the validations, in order.
        events: what guards detected and did, in order.
        energy: energy of all segments together; None if it was not measured.
        goodput: sentence about the use of the time since the training began; None if it is not known.
        origin: sentence that says what the page was made from.
        stale: sentence that says that the training is out of date; None if the training is up to date.

    Raises:
        InputError: there is no record of an iteration.
    """
    if not records:
        raise InputError(
            "the training has no record of an iteration",
            where=name,
            expected="at least one record in train/logs/metrics.jsonl; run the training first",
        )
    drawn = [
        ("Training loss", plots.metric(records, "loss", "loss", events=events)),
        *([("Validation loss by set", plots.validation(validations, "validation loss"))] if validations else []),
        ("Learning rate", plots.metric(records, "learning_rate", "learning rate")),
        ("Global batch", plots.metric(records, "global_batch_size", "samples")),
        ("Gradient norm", plots.metric(records, "grad_norm", "gradient norm", logarithmic=True, events=events)),
        ("Speed of each iteration", plots.metric(records, "tokens_per_second", "tokens per second")),
        ("TFLOP/s per device", plots.several(records, _TFLOPS, "TFLOP/s")),
        *(
            (title, plots.metric(records, column, y_label))
            for column, title, y_label in _WHERE_MEASURED
            if any(getattr(record, column) is not None for record in records)
        ),
    ]
    if any(record.slowest_seconds is not None for record in records):
        drawn.append(("Slowest and fastest rank", plots.several(records, _RANKS, "computing time in seconds")))
    if any(record.trust_ratios for record in records):
        drawn.append(("Trust ratios of LAMB", plots.trust_ratios(records, "trust ratio")))
    sections = [f"<section><h2>{escape(title)}</h2>{svg}</section>" for title, svg in drawn]
    if validations:
        sections.append(f"<section><h2>Validation loss, first and last</h2>{_validation_table(validations)}</section>")
    if last := next((record for record in reversed(records) if record.trust_ratios), None):
        sections.append(
            f"<section><h2>Trust ratios of iteration {last.iteration:,}</h2>{_trust_ratio_table(last)}</section>"
        )
    if events:
        sections.append(f'<section class="wide"><h2>Events</h2>{_event_table(events)}</section>')
    title = f"Training of {name}"
    return _PAGE.substitute(
        title=escape(title),
        stale="" if stale is None else f'<p class="stale"><strong>{escape(stale)}</strong></p>\n',
        origin=escape(origin),
        facts=_facts(records, validations, energy, goodput),
        figures="\n".join(sections),
    )


def _facts(
    records: Sequence[MetricsRecord],
    validations: Sequence[ValidationRecord],
    energy: EnergyRecord | None,
    goodput: str | None,
) -> str:
    first, last, speed = records[0], records[-1], speed_of(records)
    rows = [
        ("iterations", f"{last.iteration:,} of {last.total_iterations:,}"),
        ("consumed data", f"{last.consumed_samples:,} samples, {last.consumed_tokens:,} tokens"),
        (
            "training loss, first and last iteration",
            f"{format_finite(first.loss, '.4f')} → {format_finite(last.loss, '.4f')}",
        ),
        ("time of all iterations", f"{format_seconds(speed.seconds)}, without starts, validations and saves"),
        (
            "speed over all iterations",
            f"{speed.tokens_per_second:,.0f} tokens per second (median of the iterations: "
            f"{speed.median_tokens_per_second:,.0f})",
        ),
        (
            "TFLOP/s per device over all iterations",
            f"{speed.tflops_hardware:.4g} with recomputation, {speed.tflops_model:.4g} without",
        ),
        ("segments of the training", str(len({record.segment for record in records}))),
    ]
    if goodput is not None:
        rows.append(("goodput", goodput))
    if validations:
        before, after = validations[0].validation_mean, validations[-1].validation_mean
        change = f"{format_finite(before, '.4f')} → {format_finite(after, '.4f')}"
        said = f"{change} (perplexity of the last mean: {format_finite(perplexity(after), ',.1f')})"
        rows.insert(3, (f"mean validation loss over {len(validations[-1].validation)} sets, first and last", said))
    if last.skipped_updates or last.skipped_samples:
        finite = f" ({last.non_finite:,} with a loss or gradient that is not finite)" if last.non_finite else ""
        rows.append(("skipped", f"{last.skipped_samples:,} samples, {last.skipped_updates:,} updates{finite}"))
    if energy is not None:
        nodes = f"{energy.nodes} node{'s' if energy.nodes != 1 else ''}"
        said = format_energy(energy.energy_kwh, energy.co2_kg, energy.estimated_kwh)
        rows.append(("energy", f"{said} ({nodes}, all segments together, recorded by codecarbon)"))
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _validation_table(validations: Sequence[ValidationRecord]) -> str:
    first, last = validations[0], validations[-1]
    rows = "".join(
        f"<tr><td>{escape(name)}</td>{_cell(first.validation[name], '.4f') if name in first.validation else _NO_CELL}"
        f"{_cell(loss, '.4f')}{_cell(perplexity(loss), ',.1f')}</tr>"
        for name, loss in sorted(last.validation.items())
    )
    mean = f"<tr><th>mean</th>{_cell(first.validation_mean, '.4f')}{_cell(last.validation_mean, '.4f')}"
    rows += f"{mean}{_cell(perplexity(last.validation_mean), ',.1f')}</tr>"
    names = "".join(f'<th class="number">{name}</th>' for name in ("first", "last", "last perplexity"))
    head = f"<tr><th>set</th>{names}"
    return f"<table>{head}</tr>{rows}</table>"


def _trust_ratio_table(record: MetricsRecord) -> str:
    rows = "".join(
        f"<tr><td>{escape(layer)}</td>{''.join(_cell(value, '.4g') for value in ratios)}</tr>"
        for layer, ratios in (record.trust_ratios or {}).items()
    )
    names = "".join(f'<th class="number">{name}</th>' for name in ("least", "median", "greatest"))
    return f"<table><tr><th>layer</th>{names}</tr>{rows}</table>"


def _cell(value: float | None, form: str) -> str:
    return f'<td class="number">{format_finite(value, form)}</td>'


def _event_table(events: Sequence[EventRecord]) -> str:
    shown = events[-_EVENTS_SHOWN:]
    more = f"<p>The last {len(shown)} of {len(events):,} events.</p>" if len(shown) < len(events) else ""
    rows = "".join(
        f'<tr><td class="number">{event.iteration:,}</td><td class="short">{escape(event.time)}</td><td class="short">'
        f'{escape(event.event.replace("_", " "))}</td><td class="short">{escape(event.action.replace("_", " "))}</td>'
        f'<td class="long">{escape(event.message)}</td></tr>'
        for event in shown
    )
    head = '<tr><th class="number">iteration</th><th>time</th><th>event</th><th>action</th><th>message</th></tr>'
    return f"{more}<table>{head}{rows}</table>"
