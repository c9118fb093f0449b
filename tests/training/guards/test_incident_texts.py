"""Test that a separate process fetches the texts of an incident."""

from __future__ import annotations

from pathlib import Path

import pytest
from spike_incident import spike

from bloomery.contracts.paths import RunPaths
from training.guards.incident import texts_path, write_incident
from training.guards.incident_texts import IncidentTexts


def test_a_failure_to_fetch_texts_is_reported_once_and_not_retried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = RunPaths(tmp_path)  # the trace fails, because the folder contains no run
    path = write_incident(paths.incidents, spike(7))
    write_incident(paths.incidents, spike(8, None))
    texts = IncidentTexts(paths)
    texts.finish(60.0)
    texts.finish(60.0)
    said = capsys.readouterr().err
    assert said.count("cannot save the documents of the samples of an incident in ") == 1
    assert said.count(": `bloomery trace` ended with code 1; the training continues") == 1
    assert sorted(found.name for found in paths.incidents.iterdir()) == [path.name, "step00000008.json"]


def test_a_disk_error_while_fetching_texts_does_not_stop_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = RunPaths(tmp_path)
    path = write_incident(paths.incidents, spike(7))
    # A folder at the path of the trace's output causes an OSError, like any error of the disk.
    texts_path(path).with_name(f".{texts_path(path).name}.tmp").mkdir()
    texts = IncidentTexts(paths)
    assert not texts.look()
    assert not texts.look()
    texts.finish(60.0)
    assert capsys.readouterr().err.count("cannot save the documents of the samples of incidents (") == 1


def test_a_stopped_launcher_does_not_wait_for_texts(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    path = write_incident(paths.incidents, spike(7))
    texts = IncidentTexts(paths)
    assert texts.look(), "a trace must have started"
    texts.finish(0.0)
    assert not texts_path(path).exists()
    assert list(paths.incidents.iterdir()) == [path]
