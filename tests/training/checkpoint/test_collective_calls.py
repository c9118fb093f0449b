"""Test collective calls: an error of one rank is raised on all ranks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from ranks import run_ranks

from bloomery.base.errors import BloomeryError
from bloomery.contracts.segment import SAVE_FILE


def _told(codes: list[int], folder: Path) -> list[tuple[str, int, str]]:
    """Return the errors that this rank raises for each fault of rank 0, and for a folder in place of the save request's
    file."""
    import torch
    import torch.distributed as dist

    from training.checkpoint.collective_calls import from_rank_0
    from training.loop.control import ControlPlane
    from training.loop.segment_deadline import SegmentDeadline

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
    hear(ControlPlane(folder, torch.device("cpu"), SegmentDeadline(None)).clear_save)
    dist.destroy_process_group()
    return told


@pytest.mark.distributed
@pytest.mark.slow
def test_disk_errors_of_rank_0_are_raised_on_every_rank(tmp_path: Path) -> None:
    codes = [errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EACCES, errno.EISDIR, errno.ENAMETOOLONG]
    first, second = run_ranks(_told, 2, codes, tmp_path)
    assert first == second
    assert [(kind, code) for kind, code, _ in first] == [
        *[("TryAgainError", 75)] * 2,
        ("NoSpaceError", 1),
        *[("ResourceError", 1)] * 3,
        ("InputError", 1),
    ]
    assert all("/runs/x/train: " in message for _, _, message in first[:6])
    words = ("Input/output error", "Stale file handle", "the disk is full", "permission denied", "there is a folder")
    assert all(each in message for each, (_, _, message) in zip(words, first, strict=False))
    assert "is a folder" in first[6][2]
