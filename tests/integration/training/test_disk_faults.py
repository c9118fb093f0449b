"""What the disk does to a training: each fault is named on every rank, one that may pass is tried again, others are
not, and what has the wrong kind is refused before any process starts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from checkpoint_manifests import save_manifest
from fabricated_training import make_run, stage
from ranks import run_ranks

from bloomery.base.atomic import write_json
from bloomery.base.errors import BloomeryError, InputError
from bloomery.contracts.checkpoint import step_folders
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SAVE_FILE, STOP_FILE, SegmentStatus, clear_request
from training.launch import _outcome, launch_segment

CONFIGURATION = stage()


def _told(codes: list[int], folder: Path) -> list[tuple[str, int, str]]:
    """What a rank hears when rank 0 alone has each of these faults, and of a save that is asked for by a folder."""
    import torch
    import torch.distributed as dist

    from training.checkpoint.collective_calls import from_rank_0
    from training.loop.control import ControlPlane
    from training.loop.segment_deadline import SegmentClock

    dist.init_process_group("gloo")
    told = []

    def fail(code: int) -> None:
        raise OSError(code, os.strerror(code), "/runs/x/train")

    def hear(call: object) -> None:
        try:
            call()
        except BloomeryError as error:
            told.append((type(error).__name__, error.exit_code, str(error)))

    for code in codes:
        hear(lambda code=code: from_rank_0(lambda: fail(code)))
    (folder / SAVE_FILE).mkdir(exist_ok=True)
    hear(ControlPlane(folder, torch.device("cpu"), SegmentClock(None)).clear_save)
    dist.destroy_process_group()
    return told


@pytest.mark.distributed
@pytest.mark.slow
def test_what_the_disk_does_to_rank_0_is_told_on_every_rank(tmp_path: Path) -> None:
    codes = [errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EACCES, errno.EISDIR, errno.ENAMETOOLONG]
    first, second = run_ranks(_told, 2, codes, tmp_path)
    assert first == second
    assert [(kind, code) for kind, code, _ in first] == [
        *[("TryAgainError", 75)] * 2,
        *[("ResourceError", 1)] * 4,
        ("InputError", 1),
    ]
    assert all("/runs/x/train: " in message for _, _, message in first[:6])
    words = ("Input/output error", "Stale file handle", "the disk is full", "permission denied", "there is a folder")
    assert all(each in message for each, (_, _, message) in zip(words, first, strict=False))
    assert "is a folder" in first[6][2]


@pytest.mark.parametrize(
    ("exit_code", "status", "crashes"), [(75, SegmentStatus.CRASHED, 1), (1, SegmentStatus.FAILED, 0)]
)
def test_a_fault_that_may_pass_is_tried_again_within_the_crash_budget(
    tmp_path: Path, exit_code: int, status: SegmentStatus, crashes: int
) -> None:
    make_run(tmp_path, CONFIGURATION)
    paths = RunPaths(tmp_path)
    save_manifest(paths, CONFIGURATION, 2, 16)
    result = paths.segments / ".result-1.json"
    write_json(result, {"error": "train: Stale file handle", "exit_code": exit_code})
    segment, error = _outcome(CONFIGURATION, paths, 1, result, 1)
    assert (segment.status, segment.crashes, segment.message) == (status, crashes, "train: Stale file handle")
    assert segment.checkpoint == "step00000002"
    assert (error is None) == (status is SegmentStatus.CRASHED)


@pytest.mark.parametrize(
    ("place", "is_folder"),
    [
        (f"control/{STOP_FILE}", True),
        (f"control/{SAVE_FILE}", True),
        ("logs/metrics.jsonl", True),
        ("skips.json", True),
        ("checkpoints", False),
        ("control", False),
        ("logs", False),
    ],
)
def test_what_has_the_wrong_kind_is_refused_before_any_process_starts(
    tmp_path: Path, place: str, is_folder: bool
) -> None:
    configuration = make_run(tmp_path, CONFIGURATION)
    path = tmp_path / "train" / place
    if is_folder:
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    problem = f"{place}: is {'a folder' if is_folder else 'no folder'}; expected: "
    with pytest.raises(InputError, match=problem) as caught:
        launch_segment(configuration, tmp_path, 1, tmp_path / "train" / "segments" / "1.json")
    assert caught.value.exit_code == 1
    assert not (tmp_path / "train" / "starts.json").exists()


def test_a_request_that_was_heeded_is_cleared(tmp_path: Path) -> None:
    request = tmp_path / STOP_FILE
    clear_request(request)
    request.touch()
    clear_request(request)
    assert not request.exists()
    request.mkdir()
    with pytest.raises(InputError, match="is a folder"):
        clear_request(request)


def test_checkpoints_that_cannot_be_listed_are_not_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_folder: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    assert step_folders(tmp_path / "none") == []
    monkeypatch.setattr(os, "scandir", gone)
    with pytest.raises(OSError, match="Stale"):
        step_folders(tmp_path)
