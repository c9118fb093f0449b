"""Test that a file is written completely or not at all, even if the writer fails or is killed."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bloomery.base.atomic import (
    atomic_path,
    dump_json,
    explained,
    read_json,
    write_bytes,
    write_if_changed,
    write_json,
)
from bloomery.base.errors import InputError, ResourceError, TryAgainError


def test_a_write_creates_the_complete_file_and_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.json"
    write_json(target, {"b": 1, "a": "é"})
    assert target.read_text() == '{\n  "a": "é",\n  "b": 1\n}\n'
    assert [path.name for path in target.parent.iterdir()] == ["file.json"]


def test_a_failing_writer_leaves_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def write_half() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_killed_writer_leaves_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    code = f"""
        import time
        from pathlib import Path
        from bloomery.base.atomic import atomic_path
        with atomic_path(Path({str(target)!r})) as temporary:
            temporary.write_text("half")
            print("writing", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert target.read_text() == "old"
    [left] = [path for path in tmp_path.iterdir() if path != target]
    # Three temporary files must stay: the file of a live process of this host, the recent file of another host, and the
    # file of a target with a longer name. The old file of another host must be deleted.
    host = left.name.removeprefix(".file.").split(".")[0]
    alive, young, longer, old = (
        tmp_path / name
        for name in (f".file.{host}.1.tmp", ".file.far.9.tmp", ".file.json.far.9.tmp", ".file.far.8.tmp")
    )
    for path in (alive, young, longer, old):
        path.write_text("half")
    for path in (longer, old):
        os.utime(path, (0, 0))
    write_bytes(target, b"new")
    assert sorted(tmp_path.iterdir()) == sorted([target, alive, young, longer])


def test_a_full_disk_raises_a_clear_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True).returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        target = mount / "file"
        write_bytes(target, b"old")
        with pytest.raises(ResourceError, match="the disk is full") as caught:
            write_bytes(target, bytes(1 << 20))
        assert str(target) in str(caught.value)
        assert target.read_bytes() == b"old"
        assert list(mount.iterdir()) == [target]
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_file_beyond_the_size_limit_leaves_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(ResourceError, match="larger than this process may write"):
            write_bytes(target, bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, previous)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_unwritable_path_raises_a_clear_error(tmp_path: Path) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    for place in (obstacle / "below", obstacle / "far/below"):
        with pytest.raises(ResourceError, match="there is a file where a folder should be"):
            write_bytes(place, b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ResourceError, match="there is a folder where a file should be"):
        write_bytes(tmp_path / "folder", b"x")
    with pytest.raises(TryAgainError, match=r"cannot write: Stale file handle; .*responds"), explained(tmp_path):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    tmp_path.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root ignores permissions, so the test acts as the user `nobody`
    try:
        with pytest.raises(ResourceError, match="permission denied"):
            write_bytes(tmp_path / "new", b"x")
    finally:
        os.seteuid(user)
        tmp_path.chmod(0o700)


def test_write_if_changed_keeps_the_modification_time_of_an_unchanged_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    assert write_if_changed(target, "a")
    os.utime(target, ns=(0, 0))
    assert not write_if_changed(target, "a")
    assert target.stat().st_mtime_ns == 0
    assert write_if_changed(target, "b")


def test_invalid_json_is_neither_written_nor_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_json(float("nan"))
    damaged = tmp_path / "x.json"
    damaged.write_text('{"a": ')
    with pytest.raises(InputError, match=r"x\.json: not valid JSON"):
        read_json(damaged)
    with pytest.raises(InputError, match="no such file"):
        read_json(tmp_path / "absent.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path)
    assert json.loads(dump_json({"é": [1]})) == {"é": [1]}


def test_a_stale_file_handle_while_reading_json_is_a_temporary_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(path: Path) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    monkeypatch.setattr(Path, "read_bytes", stale)
    with pytest.raises(TryAgainError, match=r"x\.json: Stale file handle"):
        read_json(tmp_path / "x.json")
