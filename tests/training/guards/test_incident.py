"""Test the files of incidents."""

from __future__ import annotations

from pathlib import Path

from spike_incident import spike

from training.guards.incident import incident_files, read_incident, texts_path, write_incident


def test_a_repeated_iteration_with_other_samples_gets_its_own_incident(tmp_path: Path) -> None:
    path = write_incident(tmp_path, spike(7))
    texts_path(path).write_text("{}")
    assert write_incident(tmp_path, spike(7)) == path, (
        "a killed training repeats the same incident, which keeps its file"
    )
    assert incident_files(tmp_path) == [path]
    # After a roll-back, the iteration has other samples.
    others = [spike(7, (begin, begin + 16)) for begin in range(200, 440, 24)]
    paths = [write_incident(tmp_path, other) for other in others]
    later = write_incident(tmp_path, spike(8))
    assert incident_files(tmp_path) == [path, *paths, later], (
        "numbers are sorted by value, so the tenth comes after the second"
    )
    assert [read_incident(each) for each in incident_files(tmp_path)] == [spike(7), *others, spike(8)]
    assert texts_path(path).exists()
    assert not texts_path(paths[0]).exists()
