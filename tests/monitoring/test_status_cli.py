"""Test what `bloomery status` and `summary` show of guards, energy and ranks, and that absent values are omitted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fabricated_run import NOW, configuration, make_run, write_metrics

from bloomery.base.times import utc_text
from bloomery.contracts.excluded_nodes import exclude_node
from bloomery.contracts.metrics_record import EnergyRecord, EventRecord, Record, dump_record
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import valid_records
from monitoring import status, status_cli, summary_cli
from monitoring.summary import gather_summary as gather_facts

CONFIG = configuration()
HURT: dict[str, Any] = {
    "loss": None,
    "grad_norm": None,
    "update_skipped": True,
    "skipped_updates": 1007,
    "non_finite": 4,
    "skipped_samples": 2048,
    "mfu": 0.482,
    "fastest_rank": 3,
    "fastest_seconds": 1.52,
    "slowest_rank": 11,
    "slowest_seconds": 1.75,
}


def trained(folder: Path) -> RunPaths:
    paths = make_run(folder, CONFIG)
    write_metrics(paths, CONFIG, 640)
    return paths


def append(paths: RunPaths, *records: Record) -> None:
    with (paths.logs / "metrics.jsonl").open("a") as handle:
        handle.writelines(dump_record(record) + "\n" for record in records)


def watched(paths: RunPaths) -> None:
    """Append a last iteration that is not finite, an event, and the energy of two segments."""
    last = valid_records(paths.logs / "metrics.jsonl")[0][-1]
    shared = {
        "iteration": 641,
        "consumed_samples": last.consumed_samples,
        "consumed_tokens": last.consumed_tokens,
        "time": last.time,
    }
    append(
        paths,
        EnergyRecord(**shared, segment=1, energy_kwh=100.0, co2_kg=6.0, nodes=3, estimated_kwh=8.0),
        last.model_copy(update=HURT | {"iteration": 641}),
        EventRecord(**shared, segment=2, event="non_finite", action="skip", message="the loss is nan\n[sic]"),
        EnergyRecord(**shared, segment=2, energy_kwh=20.5, co2_kg=1.25, nodes=3, estimated_kwh=20.5),
    )


def status_rows(paths: RunPaths) -> dict[str, str]:
    return dict(status_cli.lines(status.gather_status(paths.run, NOW)))


def summary_rows(paths: RunPaths) -> dict[str, str]:
    return dict(summary_cli.lines(gather_facts(paths.run)))


def test_a_training_without_events_shows_no_skipped_updates_and_no_energy(tmp_path: Path) -> None:
    paths = trained(tmp_path)
    rows = status_rows(paths)
    assert {"skipped", "energy", "spike"}.isdisjoint(rows)
    assert rows["last training loss"] == "1.3514, gradient norm 0.500"
    assert rows["validation loss"] == "3.5000 after iteration 600, mean over 2 sets (perplexity of the mean: 33.1)"
    assert "1 TFLOP/s per device over the last 50 iterations" in rows["speed"]
    rows = summary_rows(paths)
    assert {"skipped", "energy"}.isdisjoint(rows)
    assert rows["validation loss"] == (
        "3.500 in the first validation, 3.500 in the last: mean over 2 sets (perplexity of the last mean: 33.1)"
    )


def test_events_and_energy_are_in_the_json_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = trained(tmp_path)
    watched(paths)
    status_cli.status(run=paths.run, as_json=True)
    progress = json.loads(capsys.readouterr().out)["progress"]
    assert [event["event"] for event in progress["events"]] == ["non_finite"]
    assert (progress["energy"]["energy_kwh"], progress["energy"]["estimated_kwh"]) == (20.5, 20.5)


def test_the_timeline_and_the_goodput_are_in_the_json_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = trained(tmp_path)
    status_cli.status(run=paths.run, as_json=True)
    timeline = json.loads(capsys.readouterr().out)["timeline"]
    (attempt,) = timeline["attempts"]
    assert (attempt["segment"], attempt["first_iteration"], attempt["last_iteration"]) == (1, 1, 640)
    used = timeline["goodput"]["seconds"]
    assert {"training", "redone iterations", "queue", "idle"} <= set(used)
    assert sum(used.values()) == pytest.approx(timeline["goodput"]["until"] - timeline["goodput"]["since"])


def test_events_energy_and_ranks_are_shown(tmp_path: Path) -> None:
    paths = trained(tmp_path)
    watched(paths)
    rows = status_rows(paths)
    assert rows["last training loss"].startswith("not finite, gradient norm not finite")
    assert rows["skipped"] == "1,007 updates (4 with a loss or gradient that is not finite), 2,048 samples"
    assert rows["non finite"] == "iteration 641: the loss is nan [sic] (skip)"
    assert rows["energy"] == "20.5 kWh (estimated), 1.25 kg CO2 by segment 2 on 3 nodes"
    assert (
        "48.2 % MFU over the last 50 iterations; batches of 48 samples; slowest rank 11 (1.75 s of computation per "
        "iteration), fastest rank 3 (1.52 s)" in rows["speed"]
    )
    rows = summary_rows(paths)
    assert rows["training loss"].endswith("not finite in the last")
    assert rows["skipped"] == "2,048 samples, 1,007 updates"
    assert rows["energy"] == "120.5 kWh (24 % estimated), 7.25 kg CO2, all segments together"


def test_excluded_nodes_are_shown_until_their_exclusion_ends(tmp_path: Path) -> None:
    paths = trained(tmp_path)
    assert not [name for name in status_rows(paths) if name.startswith("excluded")]
    now = datetime.fromtimestamp(NOW, UTC)
    exclude_node(paths, "node7", "its matmul takes 2.1 times as long", 24, "preflight", now)
    exclude_node(paths, "node8", "replaced", 1, "person", now - timedelta(hours=2))
    shown = {name: text for name, text in status_rows(paths).items() if name.startswith("excluded")}
    until = utc_text(now.replace(microsecond=0) + timedelta(hours=24))
    assert shown == {"excluded node7": f"until {until}: its matmul takes 2.1 times as long"}
    paths.excluded_nodes.write_text("[]")
    assert "cannot be read" in status_rows(paths)["excluded nodes"]
