"""Test `tail`, which shows the end of a log on disk or on a Hub, and every new byte exactly once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LOGS = "tester/tiny-bloom-logs"


def test_tail_shows_the_last_lines_of_a_run_on_disk(run):
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
    assert "the file was replaced" in talk
    reads = [entry for entry in hub.read("/_test/log") if "/resolve/" in entry["path"] and "main_log" in entry["path"]]
    assert {entry["status"] for entry in reads} <= {206, -1}, "only byte ranges are requested"


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


def test_a_reader_that_closes_the_pipe_causes_no_error(run):
    run.append(4, 5000)
    code = f"{sys.executable} -m bloomery.cli tail --run {run.paths.run} --lines 4000; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({code}) | head -n 1"], env=run.environment, capture_output=True, text=True, timeout=30
    )
    assert done.stderr.strip() == "0"
    assert done.stdout.count("\n") == 1
