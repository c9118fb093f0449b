"""Test syncs to a real server: the files on the disk arrive, even after network faults and while training writes."""

from __future__ import annotations

import fcntl
import json
import socket
import threading
import time

import pytest
from hub_support import TOKEN

from bloomery.config.delivery import PublishConfig
from bloomery.config.stages import PublishStage, write_stage

pytestmark = pytest.mark.slow

LOGS = "tester/tiny-bloom-logs"
METRICS = "logs/metrics.jsonl"


def succeeded(done):
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return done


def assert_logs_arrived(hub, run, repository=LOGS):
    expected = run.local_logs()
    assert [p for p in hub.paths(repository) if p not in (".gitattributes", "README.md")] == sorted(expected)
    for path, data in expected.items():
        assert hub.file(repository, path) == data, path


def assert_no_token(hub, run):
    for path in run.paths.run.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
    assert TOKEN not in json.dumps(hub.read("/_test/log"))


def bytes_in(hub):
    return hub.read("/_test/stats")["bytes_in"]


@pytest.mark.parametrize("xet", [True, False])
def test_logs_arrive_byte_for_byte_and_an_unchanged_run_makes_no_commit(hub, run, xet):
    variables = {} if xet else {"HF_HUB_DISABLE_XET": "1"}
    state = json.loads(succeeded(run.sync("--json", **variables)).stdout)
    assert_logs_arrived(hub, run)
    assert hub.read("/_test/stats")["cas"].get("files", 0) == (3 if xet else 0), (
        "the large files are metrics, main log and events"
    )
    assert hub.read(f"/api/models/{LOGS}")["private"] is True
    assert (state["repository"], state["endpoint"]) == (LOGS, hub.url)
    assert state["commit"] == hub.commits(LOGS)[0]
    assert state == run.state
    before = hub.commits(LOGS)
    assert len(before) == 3, "the commits are those of the new repository, of .gitattributes and of the logs"

    succeeded(run.sync(**variables))
    assert hub.commits(LOGS) == before
    run.append(4, 5)
    succeeded(run.sync(**variables))
    assert_logs_arrived(hub, run)
    assert len(hub.commits(LOGS)) == 4
    assert not (run.paths.monitoring / ".snapshot").exists()
    assert_no_token(hub, run)


@pytest.mark.parametrize("xet", [True, False])
def test_a_fault_of_each_kind_only_delays_a_sync(hub, run, xet):
    upload = {"path": "/xorbs/", "method": "POST"} if xet else {"path": "/_lfs/", "method": "PUT"}
    rounds = [
        [{"path": "/commit/", "status": 429, "headers": {"Retry-After": "0"}}, {**upload, "status": 503}],
        [{"path": "/commit/", "status": 503}, {**upload, "drop": "before"}],
        [{"path": "/commit/", "drop": "after"}, {"path": "/shards" if xet else "/objects/batch", "drop": "after"}],
        [{"path": "/commit/", "delay": 2.5}],
    ]
    variables = {"BLOOMERY_HUB_TIMEOUT": "1"} | ({} if xet else {"HF_HUB_DISABLE_XET": "1"})
    succeeded(run.sync(**variables))
    commits = len(hub.commits(LOGS))
    for number, faults in enumerate(rounds):
        run.append(10 * number + 4, 10 * number + 13)
        hub.faults(*({"times": 1, **fault} for fault in faults))
        succeeded(run.sync(**variables))
        assert all(fault["times"] == 0 for fault in hub.read("/_test/faults")), "every fault must occur"
        assert_logs_arrived(hub, run)
    # After a request without an answer, the server may still be busy with the old commit, which it then refuses.
    # Reading the log waits until the server is idle.
    hub.read("/_test/log")
    assert len(hub.commits(LOGS)) == commits + len(rounds)
    assert_no_token(hub, run)


def test_only_the_new_part_of_an_appended_file_is_sent(hub, run):
    run.append(4, 33_000)
    size = (run.paths.logs / "metrics.jsonl").stat().st_size
    assert size > 12_000_000
    succeeded(run.sync())
    assert_logs_arrived(hub, run)
    before = bytes_in(hub)
    run.append(33_001, 33_100)
    succeeded(run.sync())
    assert_logs_arrived(hub, run)
    sent = bytes_in(hub) - before
    assert 0 < sent < size / 50


def test_a_growing_file_arrives_in_whole_lines_and_completely_at_the_end(hub, run):
    stop = threading.Event()

    def write():
        with (run.paths.logs / "metrics.jsonl").open("ab") as handle:
            while not stop.is_set():
                # A line is written in pieces, so that a snapshot often contains only a part of the line.
                for piece in (b'{"iteration": 7, ', b'"loss": 1}', b"\n"):
                    handle.write(piece)
                    handle.flush()
                    time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    sizes = []
    try:
        for _ in range(3):
            succeeded(run.sync())
            sizes.append(len(arrived := hub.file(LOGS, METRICS)))
            assert arrived.endswith(b"\n")
            assert (run.paths.logs / "metrics.jsonl").read_bytes().startswith(arrived)
            assert run.state["files"][METRICS] == sizes[-1]
    finally:
        stop.set()
        writer.join()
    assert sizes == sorted(set(sizes))
    with (run.paths.logs / "main_log.txt").open("a") as log:
        log.write("the last line, without an end")
    run.finish()
    succeeded(run.sync_last())
    assert_logs_arrived(hub, run)


def test_a_hub_that_was_unreachable_during_the_run_gets_everything_afterwards(hub, run):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
        for last in (10, 20):
            run.append(last - 5, last)
            done = run.sync("--retry-seconds", "0.1", HF_ENDPOINT=nowhere)
            assert done.returncode == 75
            assert TOKEN not in done.stderr
        run.finish()
        assert (
            run.sync(
                "--retry-seconds", "0.1", "--result", str(run.paths.results / "logs.json"), HF_ENDPOINT=nowhere
            ).returncode
            == 75
        )
    assert not run.logs_report.exists()
    assert (run.state["failures"], run.state["synced"]) == (3, None)
    assert "cannot" in run.state["error"]

    succeeded(run.sync_last())
    assert_logs_arrived(hub, run)
    assert (run.state["failures"], run.state["error"]) == (0, None)
    report = json.loads(run.logs_report.read_text())
    assert (report["repository"], report["commit"]) == (LOGS, hub.commits(LOGS)[0])
    assert sorted(report["files"]) == sorted([*run.local_logs(), "README.md"])
    before = run.logs_report.read_bytes()
    run.logs_report.unlink()  # Snakemake does this before it reruns the rule
    succeeded(run.sync_last())
    assert run.logs_report.read_bytes() == before


def test_a_second_sync_at_the_same_time_fails_or_waits(hub, run, start):
    run.paths.monitoring.mkdir()
    with (run.paths.monitoring / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run.sync()
        assert done.returncode == 75
        assert "another process syncs this run" in done.stderr
        waiting = start("sync", "--run", str(run.paths.run), "--wait-seconds", "60")
        assert hub.read("/_test/log") == []
    waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert_logs_arrived(hub, run)


def test_the_page_is_valid_and_shows_the_progress_of_training(hub, run):
    from huggingface_hub import ModelCard

    succeeded(run.sync())
    page = hub.file(LOGS, "README.md").decode()
    card = ModelCard(page)
    card.data.to_dict()
    assert card.data.tags == ["tensorboard", "bloomery"]
    assert "| iteration | 3 of 100,000 (0.0 %) |" in page
    assert "| state | training |" in page
    run.finish()
    succeeded(run.sync())
    page = hub.file(LOGS, "README.md").decode()
    assert "| state | finished |" in page
    assert "| 1 | finished after iteration 100 | step00000100 |" in page


def test_files_that_the_run_moved_are_deleted_and_files_of_others_stay(hub, run):
    succeeded(run.sync())
    commit = "\n".join(
        json.dumps(line)
        for line in (
            {"key": "header", "value": {"summary": "by hand"}},
            {"key": "file", "value": {"path": "logs/notes.txt", "content": "a note", "encoding": "utf-8"}},
        )
    )
    hub.send("POST", f"/api/models/{LOGS}/commit/main", commit.encode())
    # A training that starts from the beginning again moves its old logs to the archive.
    archive = run.paths.train / "archive" / "0123-step3" / "logs"
    archive.parent.mkdir(parents=True)
    run.paths.logs.rename(archive)
    run.append(1, 1)
    succeeded(run.sync())
    paths = hub.paths(LOGS)
    assert "logs/tensorboard/events.out.tfevents.1" not in paths
    assert "archive/0123-step3/logs/tensorboard/events.out.tfevents.1" in paths
    assert hub.file(LOGS, "logs/notes.txt") == b"a note"
    assert hub.file(LOGS, METRICS) == (run.paths.logs / "metrics.jsonl").read_bytes()


def test_private_and_linked_files_are_not_sent_and_a_run_without_logs_is_synced(hub, run):
    secret = run.paths.run / "secret.txt"
    secret.write_text("private")
    (run.paths.report / "link.html").symlink_to(secret)
    for path in run.paths.logs.glob("**/*"):
        if path.is_file():
            path.unlink()
    succeeded(run.sync())
    paths = hub.paths(LOGS)
    assert paths == [".gitattributes", "README.md", "config/parts.json", "config/publish.json", "report/corpus.json"]


def test_a_token_in_a_log_is_never_sent(hub, run):
    (run.paths.logs / "main_log.txt").write_text(f"HF_TOKEN={TOKEN}\n")
    done = run.sync()
    assert done.returncode == 1
    assert "contains the Hub token" in done.stderr
    assert TOKEN not in done.stderr + json.dumps(run.state)
    assert hub.read("/_test/log") == []


def test_without_a_hub_the_last_sync_copies_files_and_another_sync_fails(hub, run):
    done = run.sync(HF_TOKEN=None)
    assert done.returncode == 2
    assert "HF_TOKEN is not set" in done.stderr
    run.finish()
    succeeded(run.sync_last(HF_ENDPOINT=None))
    report = json.loads(run.logs_report.read_text())
    assert (report["target"], report["reason"]) == ("folder", "HF_ENDPOINT is not set")
    folder = run.paths.published / "tiny-bloom-logs"
    copied = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert copied.pop("README.md")
    assert copied == run.local_logs()
    assert hub.read("/_test/log") == []


def test_the_configuration_sets_name_owner_and_visibility(hub, run):
    settings = PublishConfig(logs_repository="bloom-b", owner="team", private=False)
    write_stage(run.paths.config / "publish.json", PublishStage(name="t", model_name="tiny-bloom", publish=settings))
    succeeded(run.sync())
    assert hub.read("/api/models/team/bloom-b")["private"] is False
    assert_logs_arrived(hub, run, "team/bloom-b")
    assert not [entry for entry in hub.read("/_test/log") if "whoami" in entry["path"]]
