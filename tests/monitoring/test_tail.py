"""Test that the end of a log file and all appended text are shown."""

from __future__ import annotations

import subprocess
import threading

import pytest

from monitoring.tail import Follower, LocalLog, start_of_last_lines

pytestmark = pytest.mark.slow


class Shown:
    """Collect the text that a follower shows."""

    def __init__(self) -> None:
        self.data = b""

    def __call__(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (b"", 3, b""),
        (b"a\n", 1, b"a\n"),
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\n", 9, b"a\nb\n"),
        (b"\n\n\n", 2, b"\n\n"),
        (b"x" * 100_000 + b"\n" + b"y" * 100_000 + b"\nz\n", 2, b"y" * 100_000 + b"\nz\n"),
    ],
)
def test_the_last_lines_equal_those_of_tail(tmp_path, text, lines, expected):
    path = tmp_path / "log"
    path.write_bytes(text)
    assert text[start_of_last_lines(LocalLog(path), len(text), lines) :] == expected
    there = subprocess.run(["tail", "-n", str(lines), str(path)], capture_output=True, check=True)
    assert there.stdout == expected


def test_a_growing_file_is_shown_completely_and_without_repetition(tmp_path):
    path, shown, stop = tmp_path / "log", Shown(), threading.Event()

    def write():
        with path.open("ab", buffering=0) as handle:
            for number in range(20_000):
                handle.write(b"%d " % number if number % 3 else b"%d\n" % number)
        stop.set()

    follower = Follower(LocalLog(path), 10, shown)
    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        follower.poll()
    writer.join()
    with path.open("ab") as handle:
        handle.write(b"end\n")
    follower.poll()
    data = path.read_bytes()
    assert data.endswith(shown.data)
    assert len(shown.data) > 1000


def test_a_replaced_or_removed_file_is_shown_from_its_start_with_a_note(tmp_path, capsys):
    path, shown = tmp_path / "log", Shown()
    follower = Follower(LocalLog(path), 10, shown)
    follower.poll()
    path.write_bytes(b"one\ntwo\nhalf")
    follower.poll()
    assert shown.data == b"one\ntwo\n", "an incomplete line must not be shown"
    path.write_bytes(b"one\ntwo\n")  # training removes an incomplete line that a killed segment left
    follower.poll()
    path.write_bytes(b"one\ntwo\nthree\n")
    follower.poll()
    assert shown.data == b"one\ntwo\nthree\n"
    assert "was replaced" not in capsys.readouterr().err

    path.write_bytes(b"new\n")
    follower.poll()
    assert shown.data == b"one\ntwo\nthree\nnew\n"
    assert "was replaced" in capsys.readouterr().err
    path.write_bytes(b"another file that is longer\n")
    follower.poll()
    assert shown.data.endswith(b"new\nanother file that is longer\n")
    path.unlink()
    follower.poll()
    assert "was removed" in capsys.readouterr().err
