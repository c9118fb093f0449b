"""The end of a log on disk and on a Hub: no byte twice, none left out, whatever becomes of the file."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from monitoring.tail import Follower, LocalLog, start_of_last_lines

pytestmark = pytest.mark.slow

LOGS = "tester/tiny-bloom-logs"


class Shown:
    """What a follower wrote."""

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
def test_the_last_lines_are_those_of_tail(tmp_path, text, lines, expected):
    path = tmp_path / "log"
    path.write_bytes(text)
    assert text[start_of_last_lines(LocalLog(path), len(text), lines) :] == expected
    there = subprocess.run(["tail", "-n", str(lines), str(path)], capture_output=True, check=True)
    assert there.stdout == expected


def test_a_file_that_grows_between_any_two_looks_is_shown_once_and_whole(tmp_path):
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


def test_a_file_that_is_cut_replaced_or_gone_begins_anew_with_a_note(tmp_path, capsys):
    path, shown = tmp_path / "log", Shown()
    follower = Follower(LocalLog(path), 10, shown)
    follower.poll()
    path.write_bytes(b"one\ntwo\nhalf")
    follower.poll()
    assert shown.data == b"one\ntwo\n", "half a line waits"
    path.write_bytes(b"one\ntwo\n")  # what the training does with half a line that a killed segment left
    follower.poll()
    path.write_bytes(b"one\ntwo\nthree\n")
    follower.poll()
    assert shown.data == b"one\ntwo\nthree\n"
    assert "began anew" not in capsys.readouterr().err

    path.write_bytes(b"new\n")
    follower.poll()
    assert shown.data == b"one\ntwo\nthree\nnew\n"
    assert "began anew" in capsys.readouterr().err
    path.write_bytes(b"another file that is longer\n")
    follower.poll()
    assert shown.data.endswith(b"new\nanother file that is longer\n")
    path.unlink()
    follower.poll()
    assert "gone" in capsys.readouterr().err


def test_the_last_lines_of_a_run_on_disk(run):
    metrics = (run.paths.logs / "metrics.jsonl").read_text()
    where = ["tail", "--run", str(run.paths.run)]
    assert run.call(*where, "--lines", "1").stdout == (run.paths.logs / "main_log.txt").read_text().splitlines(True)[-1]
    assert run.call(*where, "--file", "logs/metrics.jsonl").stdout == metrics
    missing = run.call(*where, "--file", "logs/absent.txt")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "no such file" in missing.stderr
    for wrong in ([], ["--run", "a", "--hub", "b/c"], ["--run", "a", "--file", "../secret"]):
        assert run.call("tail", *wrong).returncode == 2


def read_lines(process, count):
    return [process.stdout.readline() for _ in range(count)]


def test_following_on_disk_ends_with_ctrl_c_as_a_success(run, start):
    process = start("tail", "--follow", "--run", str(run.paths.run), "--every", "0.05", "--lines", "2")
    lines = (run.paths.logs / "main_log.txt").read_text().splitlines(True)
    assert read_lines(process, 2) == lines[-2:]
    run.append(4, 6)
    assert read_lines(process, 3) == (run.paths.logs / "main_log.txt").read_text().splitlines(True)[-3:]
    process.send_signal(signal.SIGINT)
    rest, talk = process.communicate(timeout=20)
    assert (process.returncode, rest) == (0, ""), talk
    assert "Traceback" not in talk


def test_following_on_the_hub_through_faults_shows_every_byte_once(hub, run, start):
    variables = {"BLOOMERY_HUB_TIMEOUT": "1"}
    log = run.paths.logs / "main_log.txt"
    assert run.sync(**variables).returncode == 0
    process = start("tail", "--follow", "--hub", LOGS, "--every", "0.1", **variables)
    assert read_lines(process, 3) == log.read_text().splitlines(True)
    done = 3
    for fault in (
        {"path": "/resolve/", "drop": "after"},
        {"path": f"/api/models/{LOGS}$", "status": 429, "headers": {"Retry-After": "0"}},
        {"path": "/resolve/", "delay": 3},
    ):
        run.append(done + 1, done + 4)
        assert run.sync(**variables).returncode == 0
        hub.faults({"times": 1, **fault})
        assert read_lines(process, 4) == log.read_text().splitlines(True)[-4:]
        done += 4
    log.write_text("a new training\n")
    assert run.sync(**variables).returncode == 0
    assert read_lines(process, 1) == ["a new training\n"]
    process.send_signal(signal.SIGINT)
    rest, talk = process.communicate(timeout=20)
    assert (process.returncode, rest) == (0, ""), talk
    assert "began anew" in talk
    reads = [entry for entry in hub.read("/_test/log") if "/resolve/" in entry["path"] and "main_log" in entry["path"]]
    assert {entry["status"] for entry in reads} <= {206, -1}, "only ranges"


def test_a_public_log_needs_no_token_and_a_missing_one_is_an_error(hub, run):
    assert run.sync().returncode == 0
    private = run.call("tail", "--hub", LOGS, HF_TOKEN=None)
    assert private.returncode != 0
    hub.send("PUT", f"/api/models/{LOGS}/settings", b'{"visibility": "public"}')
    shown = run.call("tail", "--hub", LOGS, HF_TOKEN=None)
    assert shown.stdout == (run.paths.logs / "main_log.txt").read_text(), shown.stderr
    missing = run.call("tail", "--hub", LOGS, "--file", "logs/absent.txt")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert run.call("tail", "--hub", "tester/absent").returncode == 1


def test_a_reader_that_has_seen_enough_is_no_error(run):
    run.append(4, 5000)
    code = f"{sys.executable} -m bloomery.cli tail --run {run.paths.run} --lines 4000; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({code}) | head -n 1"], env=run.environment, capture_output=True, text=True, timeout=30
    )
    assert done.stderr.strip() == "0"
    assert done.stdout.count("\n") == 1
