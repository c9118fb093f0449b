"""Test which files of a run are copied, and that the copy of a growing file ends with its last complete line."""

from __future__ import annotations

import os
import time

import pytest
from segment_file import segment

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus, write_segment
from monitoring.snapshot import take_snapshot, training_ended


@pytest.fixture
def paths(tmp_path):
    found = RunPaths(tmp_path / "runs" / "tiny")
    found.logs.mkdir(parents=True)
    return found


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        (b"", b""),
        (b"half", b""),
        (b"one\n", b"one\n"),
        (b"one\nhalf", b"one\n"),
        (b"one\n" + b"x" * 200_000, b"one\n"),
        (b"y" * 200_000 + b"\nhalf", b"y" * 200_000 + b"\n"),
    ],
)
def test_copies_of_growing_files_end_with_a_complete_line(paths, tmp_path, text, cut):
    for name in ("metrics.jsonl", "main_log.txt", "events.out.tfevents.1"):
        (paths.logs / name).write_bytes(text)
    growing = take_snapshot(paths, tmp_path / "copy", finished=False)
    assert [growing[f"logs/{name}"].read_bytes() for name in ("metrics.jsonl", "main_log.txt")] == [cut, cut]
    assert growing["logs/events.out.tfevents.1"].read_bytes() == text
    ended = take_snapshot(paths, tmp_path / "copy", finished=True)
    assert {path.read_bytes() for path in ended.values()} == {text}


def test_only_files_for_publication_are_copied(paths, tmp_path):
    for name in (
        *("train/logs/tensorboard/events", "train/segments/1.json", "train/segments/history/1-1.json", "report/a.html"),
        *("config/train.json", "train/archive/ab-step1/logs/metrics.jsonl", "train/archive/ab-step1/history/1-1.json"),
        *("train/archive/ab-step1/checkpoints/step1/weights.pt", "config/ingest/source/00000.json", "logs/ingest.log"),
        *("train/logs/.hidden", "train/segments/.result-1.json", "train/logs/a.tmp", "train/checkpoints/latest"),
        *("train/logs/ranks/0.log", "train/archive/ab-step1/logs/ranks/0.log"),
        "train/archive/ab-step1/logs/tensorboard/events",
    ):
        path = paths.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (paths.logs / "link.txt").symlink_to(paths.run / "config" / "ingest")
    copied = take_snapshot(paths, tmp_path / "copy", finished=False)
    assert sorted(copied) == [
        "archive/ab-step1/history/1-1.json",
        "archive/ab-step1/logs/metrics.jsonl",
        "archive/ab-step1/logs/tensorboard/events",
        "config/train.json",
        "logs/tensorboard/events",
        "report/a.html",
        "segments/1.json",
        "segments/history/1-1.json",
    ]


def test_a_training_that_runs_again_has_not_ended_despite_an_old_finished_file(paths):
    assert not training_ended(paths)
    first, last = segment(1, SegmentStatus.TIME_LIMIT), segment(2, SegmentStatus.FINISHED)
    for number, entry in ((1, first), (2, last)):
        write_segment(paths.segments / f"{number}.json", entry)
    assert not training_ended(paths)
    write_segment(paths.finished, last)
    assert training_ended(paths)
    (paths.segments / "1.json").unlink()  # Snakemake removes the file before it runs the segment again
    assert not training_ended(paths)
    write_segment(paths.segments / "1.json", first)
    later = paths.finished.stat().st_mtime_ns + 1_000_000_000
    os.utime(paths.segments / "1.json", ns=(later, later))
    assert not training_ended(paths)


def test_a_damaged_number_of_segments_does_not_take_long(paths):
    write_segment(paths.segments / "1.json", segment(1, SegmentStatus.FINISHED))
    write_segment(paths.finished, segment(2**58, SegmentStatus.FINISHED))
    before = time.process_time()
    assert not training_ended(paths)
    assert time.process_time() - before < 5
