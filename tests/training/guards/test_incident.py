"""The file of an incident."""

from __future__ import annotations

from pathlib import Path

from spike_incident import spike

from training.guards.incident import incident_files, read_incident, texts_path, write_incident


def test_an_iteration_that_comes_again_has_an_incident_of_its_own(tmp_path: Path) -> None:
    path = write_incident(tmp_path, spike(7))
    texts_path(path).write_text("{}")
    assert write_incident(tmp_path, spike(7)) == path, "a training that was killed does the same again"
    assert incident_files(tmp_path) == [path]
    # After a roll-back it has other samples.
    others = [spike(7, (begin, begin + 16)) for begin in range(200, 440, 24)]
    paths = [write_incident(tmp_path, other) for other in others]
    later = write_incident(tmp_path, spike(8))
    assert incident_files(tmp_path) == [path, *paths, later], "the tenth behind the second"
    assert [read_incident(each) for each in incident_files(tmp_path)] == [spike(7), *others, spike(8)]
    assert texts_path(path).exists()
    assert not texts_path(paths[0]).exists()
