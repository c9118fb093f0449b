"""Test that files are written past the page cache with the right bytes, and that errors name the file."""

from __future__ import annotations

import errno
import hashlib
import os
import random
from pathlib import Path

import pytest

from bloomery.base.errors import BloomeryError, NoSpaceError
from export import direct_writer
from export.direct_writer import DirectWriter


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_writer, "_BUFFER_BYTES", 2 * 4096)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 8192, 8193, 100_000])
@pytest.mark.parametrize("part", [1000, 4096, 50_000])
def test_the_file_has_the_bytes_and_the_hash_is_theirs(tmp_path: Path, size: int, part: int) -> None:
    data = random.Random(size).randbytes(size)
    with DirectWriter(tmp_path / "file") as file:
        for start in range(0, size, part):
            file.write(data[start : start + part])
        entry = file.finish()
    assert (tmp_path / "file").read_bytes() == data
    assert (entry.bytes, entry.sha256) == (size, hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("refuse", ["open", "write"])
def test_a_disk_without_direct_writes_gets_the_same_file(tmp_path: Path, monkeypatch, refuse: str) -> None:
    opened, written = os.open, os.write
    direct = getattr(os, "O_DIRECT", 0)

    def open_file(path, flags, *more, **options):
        if refuse == "open" and flags & direct:
            raise OSError(errno.EOPNOTSUPP, "refused")
        return opened(path, flags, *more, **options)

    def write(file, data):
        import fcntl

        if refuse == "write" and fcntl.fcntl(file, fcntl.F_GETFL) & direct:
            raise OSError(errno.EINVAL, "refused")
        return written(file, data)

    monkeypatch.setattr(direct_writer.os, "open", open_file)
    monkeypatch.setattr(direct_writer.os, "write", write)
    data = random.Random(1).randbytes(30_000)
    with DirectWriter(tmp_path / "file") as file:
        file.write(data)
        entry = file.finish()
    assert (tmp_path / "file").read_bytes() == data
    assert entry.sha256 == hashlib.sha256(data).hexdigest()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch) -> None:
    written = os.write
    monkeypatch.setattr(direct_writer.os, "write", lambda file, data: written(file, data[: max(1, len(data) // 3)]))
    data = random.Random(2).randbytes(20_000)
    with DirectWriter(tmp_path / "file") as file:
        file.write(data)
        file.finish()
    assert (tmp_path / "file").read_bytes() == data


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, NoSpaceError), (errno.EIO, BloomeryError), (errno.EPIPE, BloomeryError)]
)
def test_an_error_of_the_disk_names_the_file(tmp_path: Path, monkeypatch, number: int, kind: type) -> None:
    def refuse(_file, _data):
        raise OSError(number, "refused")

    monkeypatch.setattr(direct_writer.os, "write", refuse)
    with DirectWriter(tmp_path / "file") as file:
        file.write(bytes(5000))
        with pytest.raises(kind, match=str(tmp_path / "file")):
            file.finish()


def test_a_missing_folder_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(BloomeryError, match="absent"):
        DirectWriter(tmp_path / "absent" / "file")
