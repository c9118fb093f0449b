"""What the launcher does around a segment: counting starts that come to nothing, fetching texts of incidents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fabricated_training import stage

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus
from training import launch
from training.guards.incident import Incident, incident_files, read_incident, texts_path, write_incident
from training.guards.incident_texts import IncidentTexts
from training.resume.count_starts import count_start, forget_starts

CRASHED = Segment(
    number=3,
    status=SegmentStatus.CRASHED,
    first_iteration=0,
    iteration=100,
    total_iterations=1000,
    consumed_samples=0,
    consumed_tokens=0,
    checkpoint="step00000100",
    identity="x",
    message="its processes ended with code 1",
)


def test_starts_without_a_new_checkpoint_end_the_chain(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    for _ in range(3):
        count_start(paths, 100, 3, CRASHED)
    with pytest.raises(CheckFailedError) as caught:
        count_start(paths, 100, 3, CRASHED)
    assert "3 starts in a row saved no new checkpoint" in str(caught.value)
    assert "the last attempt: crashed its processes ended with code 1" in str(caught.value)
    assert "max_restarts_without_progress = 3" in str(caught.value)
    for _ in range(3):
        count_start(paths, 100, 3, CRASHED)  # a person starts again


def test_a_damaged_count_begins_again(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    count_start(paths, 100, 1, None)
    for damaged in ("", "[]", '{"newest_iteration": 100}'):
        paths.starts.write_text(damaged)
        count_start(paths, 100, 1, None)


@pytest.mark.parametrize("newest", [None, 0, 100])
def test_a_new_checkpoint_a_roll_back_and_the_end_are_progress(tmp_path: Path, newest: int | None) -> None:
    paths = RunPaths(tmp_path)
    count_start(paths, newest, 1, None)
    count_start(paths, 200, 1, None)
    count_start(paths, newest, 1, None)
    with pytest.raises(CheckFailedError):
        count_start(paths, newest, 1, None)
    count_start(paths, newest, 1, None)
    forget_starts(paths)
    count_start(paths, newest, 1, None)


def spike(iteration: int, samples: tuple[int, int] | None = (96, 112)) -> Incident:
    begin, end = samples or (None, None)
    return Incident(
        iteration=iteration,
        event="spike",
        action="log",
        values={"grad_norm": 15.9, "usual": 0.242, "loss": None},
        from_sample=begin,
        to_sample=end,
        message="gradient norm 15.9",
    )


def test_texts_that_cannot_be_fetched_are_said_and_not_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = RunPaths(tmp_path)  # no run: the trace fails
    path = write_incident(paths.incidents, spike(7))
    write_incident(paths.incidents, spike(8, None))
    texts = IncidentTexts(paths)
    texts.finish(60.0)
    texts.finish(60.0)
    assert capsys.readouterr().err.count("no texts of an incident: bloomery trace ended with code 1") == 1
    assert sorted(found.name for found in paths.incidents.iterdir()) == [path.name, "step00000008.json"]


def test_a_disk_that_takes_no_texts_does_not_end_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = RunPaths(tmp_path)
    path = write_incident(paths.incidents, spike(7))
    # A folder stands where the trace's output would go: as any error of the disk, an OSError.
    texts_path(path).with_name(f".{texts_path(path).name}.tmp").mkdir()
    texts = IncidentTexts(paths)
    assert not texts.look()
    assert not texts.look()
    texts.finish(60.0)
    assert capsys.readouterr().err.count("no more texts of incidents") == 1


def test_who_asks_the_launcher_to_stop_does_not_wait_for_texts(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    path = write_incident(paths.incidents, spike(7))
    texts = IncidentTexts(paths)
    assert texts.look(), "a trace has begun"
    texts.finish(0.0)
    assert not texts_path(path).exists()
    assert list(paths.incidents.iterdir()) == [path]


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


def test_texts_are_fetched_while_the_processes_run_and_at_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Texts:
        def __init__(self, paths: RunPaths) -> None:
            assert paths.run == tmp_path

        def look(self) -> bool:
            seen.append("look")
            return False

        def finish(self, seconds: float) -> None:
            seen.append(f"finish in {seconds:.0f} s")

    monkeypatch.setattr(launch, "IncidentTexts", Texts)
    monkeypatch.setattr(launch, "_LOOK_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(launch, "start_command", lambda *_: [sys.executable, "-c", "import time; time.sleep(0.4)"])
    assert launch._run_processes(stage(), tmp_path / "config", RunPaths(tmp_path), 1, tmp_path / "result", None) == 0
    assert seen[0] == "look"
    assert seen[-1] == "finish in 60 s"
