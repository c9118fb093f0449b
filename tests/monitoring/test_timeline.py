"""Test that the attempts of a training are gathered from its files, and how `bloomery status` shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from step_records import step

from bloomery.contracts.launches import Launch, append_launch, read_launches
from bloomery.contracts.metrics_record import EventRecord, Record, ValidationRecord, dump_record
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Fault, FirstFailure, Segment, SegmentStatus, write_segment
from monitoring.goodput import TimeUse
from monitoring.timeline import Timeline, read_timeline
from monitoring.timeline_rows import compress_hosts, goodput_text, timeline_rows

DAY = datetime(2026, 11, 21, tzinfo=UTC).timestamp()


def text(seconds: float) -> str:
    return datetime.fromtimestamp(DAY + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def launch(paths: RunPaths, number: int, at: float, submitted: float | None = None, job: str | None = None) -> None:
    known = None if submitted is None else text(submitted)
    append_launch(paths, Launch(segment=number, started=text(at), submitted=known, job=job))


def steps(paths: RunPaths, number: int, first: int, last: int, at: float, *, seconds: float = 10.0) -> None:
    """Append records of iterations that end every `seconds`; the first one ends at `at`."""
    append(
        paths,
        *(
            step(iteration, segment=number, time=text(at + seconds * n), seconds=seconds)
            for n, iteration in enumerate(range(first, last + 1))
        ),
    )


def append(paths: RunPaths, *records: Record) -> None:
    paths.logs.mkdir(parents=True, exist_ok=True)
    with (paths.logs / "metrics.jsonl").open("a") as handle:
        handle.writelines(dump_record(record) + "\n" for record in records)


def ended(paths: RunPaths, number: int, status: SegmentStatus, iteration: int, k: int = 1, **more: Any) -> None:
    segment = Segment(
        number=number,
        status=status,
        first_iteration=1,
        iteration=iteration,
        total_iterations=1000,
        consumed_samples=0,
        consumed_tokens=0,
        checkpoint=None,
        identity="x",
        **more,
    )
    write_segment(paths.segments / "history" / f"{number}-{k}.json", segment)


def used(found: Timeline) -> dict[TimeUse, float]:
    assert found.goodput is not None
    assert sum(found.goodput.seconds.values()) == pytest.approx(found.goodput.total, abs=1e-6)
    return {use: seconds for use, seconds in found.goodput.seconds.items() if seconds}


def crashed_training(folder: Path) -> RunPaths:
    """Make a training whose first segment crashed after iteration 20, with a checkpoint of iteration 16."""
    paths = RunPaths(folder / "run")
    launch(paths, 1, 0, job="11")
    steps(paths, 1, 1, 20, 40)
    failure = FirstFailure(rank=3, host="node2", ending="was ended by signal\nSIGKILL")
    times = {"started": text(0), "ended": text(235), "nodes": ("node1", "node2", "node3"), "job": "11"}
    ended(paths, 1, SegmentStatus.CRASHED, 16, fault=Fault.PROCESS, first_failure=failure, **times)
    return paths


def test_iterations_after_the_resume_point_are_redone_even_before_they_are_trained_again(tmp_path: Path) -> None:
    paths = crashed_training(tmp_path)
    found = read_timeline(paths, DAY + 300, queued_since=DAY + 240)
    expected = {
        TimeUse.TRAINING: 160.0,
        TimeUse.REDONE: 40.0,
        TimeUse.START: 30.0,
        TimeUse.FAULT: 5.0,
        TimeUse.IDLE: 5.0,
        TimeUse.QUEUE: 60.0,
    }
    assert used(found) == expected
    launch(paths, 2, 250, submitted=240, job="12")
    steps(paths, 2, 17, 18, 290)
    found = read_timeline(paths, DAY + 304, running=True)
    assert used(found) == {
        **expected,
        TimeUse.TRAINING: 180.0,
        TimeUse.START: 60.0,
        TimeUse.QUEUE: 10.0,
        TimeUse.CURRENT: 4.0,
    }
    assert [attempt.running for attempt in found.attempts] == [False, True]


def test_the_timeline_shows_fault_first_failure_and_the_running_segment(tmp_path: Path) -> None:
    paths = crashed_training(tmp_path)
    launch(paths, 2, 250, submitted=240, job="12")
    rows = timeline_rows(read_timeline(paths, DAY + 304, running=True))
    assert rows == [
        (
            "segment 1",
            "crashed (process), 2026-11-21T00:00:00Z, 3 min 55 s, iterations 1 to 20, job 11, node[1-3], first "
            "failure: rank 3 on node2 was ended by signal SIGKILL",
        ),
        ("segment 2", "running, 2026-11-21T00:04:10Z, 54.0 s, job 12"),
    ]


def test_only_the_last_attempts_are_shown_unless_all_are_requested(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    for number in range(1, 10):
        launch(paths, number, 100 * number)
        steps(paths, number, number, number, 100 * number + 30)
        times = {"started": text(100 * number), "ended": text(100 * number + 50)}
        ended(paths, number, SegmentStatus.TIME_LIMIT, number, end_save_seconds=8.0, **times)
    found = read_timeline(paths, DAY + 1000)
    rows = timeline_rows(found)
    assert rows[0] == ("segments", "the last 6 of 9; to show all: --all")
    assert [name for name, _ in rows[1:]] == [f"segment {number}" for number in range(4, 10)]
    assert len(timeline_rows(found, every=True)) == 9
    assert found.goodput is not None
    assert goodput_text(found.goodput) == (
        "10.0 % of 15 min 0 s since 2026-11-21T00:01:40Z trained the current weights; the rest: idle 50.0 %, start "
        "20.0 %, end 12.0 %, saves 8.0 %"
    )


def test_a_launcher_that_was_killed_is_an_attempt_without_a_record(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    launch(paths, 1, 0)
    steps(paths, 1, 1, 4, 30)
    # The same segment starts again. Its first record has the iteration after the checkpoint of iteration 2.
    launch(paths, 1, 100)
    steps(paths, 1, 3, 6, 140)
    ended(paths, 1, SegmentStatus.STOPPED, 6, started=text(100), ended=text(175))
    # After a stop the same segment starts a third time, and its iterations continue without a repetition.
    launch(paths, 1, 200)
    steps(paths, 1, 7, 8, 230)
    found = read_timeline(paths, DAY + 245, running=True)
    assert [(each.status, each.first_iteration, each.last_iteration) for each in found.attempts] == [
        (None, 1, 4),
        ("stopped", 3, 6),
        (None, 7, 8),
    ]
    assert used(found) == {
        TimeUse.TRAINING: 80.0,
        TimeUse.REDONE: 20.0,
        TimeUse.START: 70.0,
        TimeUse.END: 5.0,
        TimeUse.CURRENT: 5.0,
        TimeUse.STOPPED: 25.0,
        TimeUse.IDLE: 40.0,
    }


def test_a_record_belongs_to_the_launch_that_began_at_the_same_time(tmp_path: Path) -> None:
    """A job that SLURM requeues can start again seconds after it was killed."""
    paths = RunPaths(tmp_path / "run")
    for at in (0, 12, 30):
        launch(paths, 1, at)
    ended(paths, 1, SegmentStatus.CRASHED, 0, fault=Fault.PREFLIGHT, started=text(13), ended=text(20))
    assert [each.status for each in read_timeline(paths, DAY + 40).attempts] == [None, "crashed", None]


def test_the_late_record_of_a_lost_job_does_not_extend_the_attempt(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    launch(paths, 1, 0)
    steps(paths, 1, 1, 2, 30)
    ended(paths, 1, SegmentStatus.CRASHED, 2, fault=Fault.LOST, ended=text(500))
    found = read_timeline(paths, DAY + 500)
    assert used(found) == {TimeUse.TRAINING: 20.0, TimeUse.START: 20.0, TimeUse.IDLE: 460.0}
    assert timeline_rows(found)[0][1].startswith("crashed (lost), 2026-11-21T00:00:00Z, 40.0 s, iterations 1 to 2")


def test_saves_and_validations_are_counted_and_events_are_not(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    launch(paths, 1, 0)
    steps(paths, 1, 1, 1, 30)
    at = {"iteration": 1, "consumed_samples": 8, "consumed_tokens": 8, "segment": 1}
    loss = {"validation": {"fr": 3.0}, "validation_mean": 3.0}
    append(
        paths,
        ValidationRecord(**at, time=text(36), seconds=6.0, **loss),
        EventRecord(**at, time=text(37), event="spike", action="log", message='a "seconds":9 text'),
        step(2, segment=1, time=text(50), seconds=10.0, save_seconds=3.5),
        # Earlier versions did not record how long a validation took.
        ValidationRecord(**at, time=text(55), **loss),
    )
    assert used(read_timeline(paths, DAY + 55, finished=True)) == {
        TimeUse.TRAINING: 20.0,
        TimeUse.SAVES: 3.5,
        TimeUse.VALIDATION: 6.0,
        TimeUse.START: 20.0,
        TimeUse.STEPS: 5.5,
    }


def test_damaged_and_foreign_lines_of_the_metrics_are_skipped_or_parsed(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    launch(paths, 1, 0)
    steps(paths, 1, 1, 1, 30)
    metrics = paths.logs / "metrics.jsonl"
    spaced = dump_record(step(2, segment=1, time=text(40), seconds=10.0)).replace(":", ": ")
    spaced = spaced.replace("T00: 00: 40Z", "T00:00:40Z")
    with metrics.open("a") as handle:
        handle.write('{"iteration":x,"seconds":1,"segment":1,"time":"2026-11-21T00:00:35Z"}\n[1]\n')
        whole = dump_record(step(1, segment=1, time=text(35), seconds=5.0))
        for before, after in (("T00:00:35Z", "T99:00:35Z"), ('"seconds":5.0', '"seconds":NaN')):
            assert before in whole
            handle.write(whole.replace(before, after) + "\n")
        handle.write(spaced + "\n" + dump_record(step(3, segment=1, time=text(50)))[:40])
    found = read_timeline(paths, DAY + 40, finished=True)
    assert used(found) == {TimeUse.TRAINING: 20.0, TimeUse.START: 20.0}


def test_a_training_of_an_earlier_version_has_a_timeline_from_its_metrics(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    steps(paths, 1, 1, 4, 30)
    ended(paths, 1, SegmentStatus.CRASHED, 2)
    steps(paths, 1, 3, 4, 100)
    ended(paths, 1, SegmentStatus.TIME_LIMIT, 4, 2)
    steps(paths, 2, 5, 6, 150)
    ended(paths, 2, SegmentStatus.FINISHED, 6)
    found = read_timeline(paths, DAY + 999, finished=True)
    assert [(each.segment, each.status, each.last_iteration) for each in found.attempts] == [
        (1, "crashed", 4),
        (1, "time_limit", 4),
        (2, "finished", 6),
    ]
    assert used(found) == {TimeUse.TRAINING: 60.0, TimeUse.REDONE: 20.0, TimeUse.UNKNOWN: 60.0}


def test_launches_survive_a_line_that_was_cut_off(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    assert read_launches(paths) == []
    launch(paths, 1, 0)
    with paths.launches.open("a") as handle:
        handle.write('{"segment":2,"sta')
    assert [each.segment for each in read_launches(paths)] == [1]
    launch(paths, 3, 10, submitted=5, job="7")
    assert read_launches(paths)[1:] == [Launch(segment=3, started=text(10), submitted=text(5), job="7")]


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        (["node1", "node2", "node3", "gpu07"], "gpu07,node[1-3]"),
        (["jz1n09", "jz1n10", "jz1n12"], "jz1n[09-10,12]"),
        (["n09", "n10", "n11"], "n[09-11]"),
        (["login", "login"], "login"),
        ([], ""),
    ],
)
def test_host_names_are_compressed(hosts: list[str], shown: str) -> None:
    assert compress_hosts(hosts) == shown
