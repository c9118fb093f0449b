"""Test that the page of a training is one self-contained file with equal bytes for equal records."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from falling_loss import records, validations

from bloomery.base.errors import InputError
from bloomery.contracts.metrics_record import EnergyRecord, EventRecord
from monitoring.training_page import training_page

pytestmark = pytest.mark.slow


def test_the_page_is_complete_and_loads_no_other_files() -> None:
    page = training_page("my <run>", records(40), validations(4))
    assert page.count("<svg") == 7
    assert "my &lt;run&gt;" in page
    assert "zh&lt;s&gt;" in page
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', page)
    for svg in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        ElementTree.fromstring(svg)


def test_figures_say_what_they_are() -> None:
    page = training_page("a", records(40), validations(4))
    for name in (
        "training loss, first and last iteration",
        "mean validation loss over 2 sets, first and last",
        "perplexity of the last mean",
        "TFLOP/s per device over all iterations",
        "tokens per second (median of the iterations",
        "without starts, validations and saves",
    ):
        assert name in page, name


def test_equal_records_give_equal_bytes() -> None:
    assert training_page("a", records(40), validations(4)) == training_page("a", records(40), validations(4))


def test_a_run_with_one_iteration_and_no_validation_is_drawn() -> None:
    assert training_page("a", records(1), []).count("<svg") == 6


def test_events_energy_ranks_and_skipped_updates_are_shown_only_if_measured() -> None:
    plain = training_page("a", records(40), validations(2))
    for absent in ("Events", "energy", "skipped", "Slowest", "Loss scale", "Sequence length"):
        assert absent not in plain
    changes = {"skipped_updates": 3, "non_finite": 1, "skipped_samples": 1024, "loss_scale": 4.0, "sequence_length": 8}
    ranks = {"fastest_rank": 0, "fastest_seconds": 0.08, "slowest_rank": 1, "slowest_seconds": 0.09}
    shared = {
        "iteration": 12,
        "consumed_samples": 1,
        "consumed_tokens": 1,
        "segment": 1,
        "time": "2026-01-01T00:00:00Z",
    }
    event = EventRecord(**shared, event="non_finite", action="roll_back", message="grew <b>")
    energy = EnergyRecord(**shared, energy_kwh=12.5, co2_kg=0.7, nodes=2, estimated_kwh=1.5)
    steps = [record.model_copy(update=changes | ranks) for record in records(40)]
    page = training_page("a", steps, validations(2), [event] * 60, energy)
    assert page.count("<svg") == plain.count("<svg") + 3
    short = "".join(f'<td class="short">{each}</td>' for each in ("2026-01-01T00:00:00Z", "non finite", "roll back"))
    assert f'<td class="number">12</td>{short}<td class="long">grew &lt;b&gt;</td>' in page
    assert "The last 50 of 60 events." in page
    assert "12.5 kWh (12 % estimated), 0.7 kg CO2 (2 nodes, all segments together, recorded by codecarbon)" in page
    assert "1,024 samples, 3 updates (1 with a loss or gradient that is not finite)" in page


def test_a_run_without_records_is_refused() -> None:
    with pytest.raises(InputError, match="no record of an iteration"):
        training_page("a", [], [])


def test_the_page_states_what_it_was_made_from_and_whether_it_is_out_of_date() -> None:
    page = training_page("a", records(2), [], origin="Made from <x>.", stale="Out of date: <y>.")
    mark = '<p class="stale"><strong>Out of date: &lt;y&gt;.</strong></p>'
    assert f'{mark}\n<p class="note">Made from &lt;x&gt;.</p>' in page
    assert 'class="stale"' not in training_page("a", records(2), [], origin="Made from <x>.")


def test_trust_ratios_are_drawn_only_if_measured() -> None:
    plain = training_page("a", records(40), [])
    assert "Trust ratios" not in plain
    layers = ["embedding", *(f"block {number}" for number in range(30)), "final norm"]
    measured = [
        record.model_copy(
            update={"trust_ratios": {name: (0.01 * (1 + number), 0.1, 2.0) for number, name in enumerate(layers)}}
        )
        for record in records(40)
    ]
    # An iteration whose update was skipped has no ratios, and a ratio may not be finite.
    measured[7] = records(40)[7]
    measured[8].trust_ratios["embedding"] = (None, None, None)
    page = training_page("a", measured, [])
    assert page.count("<svg") == plain.count("<svg") + 1
    assert "Trust ratios of LAMB" in page
    assert page.count("block 29") == 1, "only the table has every layer"
    assert '<tr><td>final norm</td><td class="number">0.32</td><td class="number">0.1</td>' in page
