"""Test when alerts begin, repeat and end, and that a killed watcher loses no message and repeats at most one."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from waiting import wait_for

from bloomery.base.errors import TryAgainError
from bloomery.config.alerts import AlertsConfig
from bloomery.contracts.paths import RunPaths
from bloomery.detect.finding import Finding, Kind, Severity
from monitoring.alerts.advice import Advice
from monitoring.alerts.channels import FileChannel, log_channel
from monitoring.alerts.deliver import deliver
from monitoring.alerts.ledger import acknowledge, advance, register
from monitoring.alerts.observe import Look
from monitoring.alerts.state import AlertState, Message, alert_lock, read_alert_state, write_alert_state

STALL = Finding(Kind.STALL, Severity.CRITICAL, "No iteration.")
SLOW = Finding(Kind.THROUGHPUT, Severity.WARNING, "Slow.")
MINUTE, HOUR = 60.0, 3600.0


class Clock:
    """A state of alerts that is changed by looks at simulated times."""

    def __init__(self, **settings: object) -> None:
        self.settings = AlertsConfig.model_validate(settings)
        self.state = AlertState()

    def look(
        self, now: float, *findings: Finding, unknown: frozenset[Kind] = frozenset(), ended: str = ""
    ) -> list[str]:
        """Look at the conditions. Return the events of the new messages, each as `event key`."""
        before = self.state.count
        register(self.state, ["chat"], now)
        advance(
            self.state,
            Look(list(findings), unknown, ended),
            self.settings,
            now=now,
            run="runs/big",
            time="2026-01-01T00:00:00Z",
            advise=lambda _: Advice("node1", "Segment 7 resumes from step00000400.", "bloomery status"),
        )
        return [f"{each.event} {each.key}" for each in self.state.messages if each.id > before]


def test_a_condition_sends_one_message_when_it_begins_and_one_when_it_ends() -> None:
    clock = Clock()
    assert clock.look(0, STALL) == ["alert stall"]
    assert clock.look(MINUTE, STALL) == []
    assert clock.look(2 * MINUTE, STALL, SLOW) == ["alert throughput"]
    assert clock.look(3 * MINUTE, SLOW) == ["recovery stall"]
    assert clock.look(4 * MINUTE, ended="The run has finished.") == ["recovery throughput"]
    begin, _, end, last = clock.state.messages
    assert begin.title == "[critical] big: the training makes no progress"
    assert begin.text.splitlines() == [
        "What happened: No iteration.",
        "Where: node1",
        "What was done: Segment 7 resumes from step00000400.",
        "What to type: bloomery status",
        "Run: runs/big",
        "More: docs/how-to/alerts.md#stall",
    ]
    assert end.title == "[ok] big: ended: the training makes no progress"
    assert "It lasted 3 min 0 s" in end.text
    assert last.text.startswith("Ended: The run has finished.")
    assert clock.look(5 * MINUTE) == []


def test_an_alert_that_returns_soon_is_sent_after_the_cool_down_only() -> None:
    clock = Clock(cooldown_minutes=60)
    assert clock.look(0, STALL) == ["alert stall"]
    assert clock.look(10 * MINUTE) == ["recovery stall"]
    assert clock.look(20 * MINUTE, STALL) == []
    assert clock.look(30 * MINUTE) == []
    assert clock.look(60 * MINUTE, STALL) == []
    assert clock.look(70 * MINUTE, STALL) == ["alert stall"]
    assert clock.look(71 * MINUTE) == ["recovery stall"]


def test_a_critical_alert_is_repeated_until_somebody_acknowledges_it() -> None:
    clock = Clock(repeat_hours=24)
    clock.look(0, STALL, SLOW)
    assert clock.look(23 * HOUR, STALL, SLOW) == []
    assert clock.look(24 * HOUR, STALL, SLOW) == ["repeat stall"]
    assert acknowledge(clock.state, "stall", "ann")
    assert clock.look(72 * HOUR, STALL, SLOW) == []
    assert clock.look(73 * HOUR, SLOW) == ["recovery stall"]
    assert not acknowledge(clock.state, "stall", "ann")


def test_a_severity_that_rises_is_sent_at_once() -> None:
    clock = Clock()
    disk = Finding(Kind.DISK, Severity.WARNING, "Three days.")
    clock.look(0, disk)
    assert clock.look(MINUTE, Finding(Kind.DISK, Severity.CRITICAL, "Three hours.")) == ["worse disk"]
    assert clock.state.messages[-1].title == "[critical] big: worse: the disk will be full"


def test_a_condition_that_must_hold_for_a_time_is_sent_after_this_time() -> None:
    clock = Clock()
    away = Finding(Kind.SCHEDULER, Severity.WARNING, "No answer.", hold_seconds=10 * MINUTE)
    assert clock.look(0, away) == []
    assert clock.look(5 * MINUTE) == []
    assert clock.look(6 * MINUTE, away) == []
    assert clock.look(16 * MINUTE, away) == ["alert scheduler"]


def test_conditions_that_cannot_be_judged_neither_begin_nor_end() -> None:
    clock = Clock()
    clock.look(0, STALL, SLOW)
    assert clock.look(MINUTE, unknown=frozenset({Kind.STALL})) == ["recovery throughput"]
    assert clock.look(2 * MINUTE, STALL) == []


def test_alerts_below_the_least_severity_are_only_recorded() -> None:
    clock = Clock(least_severity="critical")
    clock.look(0, STALL, SLOW)
    assert [each.pending for each in clock.state.messages] == [["alerts.jsonl", "chat"], ["alerts.jsonl"]]


class Flaky:
    """A channel that fails until a test lets it succeed."""

    name = "chat"

    def __init__(self) -> None:
        self.works, self.tries = False, 0
        self.got: list[int] = []

    def send(self, message: Message, seconds: float) -> None:
        self.tries += 1
        if not self.works:
            raise TryAgainError("down")
        self.got.append(message.id)


def test_a_failing_receiver_is_retried_later_in_order_and_does_not_block_others(tmp_path: Path) -> None:
    clock, chat, log = Clock(retry_minutes=1), Flaky(), FileChannel("alerts.jsonl", tmp_path / "log")
    ways = {"alerts.jsonl": log, "chat": chat}

    def send(now: float) -> None:
        deliver(clock.state, ways, clock.settings, now=now, save=lambda: None)

    clock.look(0, STALL)
    send(0)
    clock.look(30, STALL, SLOW)
    send(30)
    assert [json.loads(line)["id"] for line in log.path.read_text().splitlines()] == [1, 2]
    assert (chat.tries, clock.state.receivers["chat"].error) == (1, "down")
    send(60)
    send(119)
    assert chat.tries == 2
    chat.works = True
    send(180)
    assert chat.got == [1, 2]
    assert clock.state.messages == []
    assert clock.state.receivers["chat"].failures == 0


def _send_and_die(folder: Path, after: str) -> None:
    """Deliver the messages of a run, and be killed at one moment."""
    paths = RunPaths(folder)
    state = read_alert_state(paths)
    channel = log_channel(paths)

    class Deadly:
        name = "alerts.jsonl"

        def send(self, message: Message, seconds: float) -> None:
            if after == "begin":
                os.kill(os.getpid(), signal.SIGKILL)
            channel.send(message, seconds)
            if after == "send":
                os.kill(os.getpid(), signal.SIGKILL)

    deliver(state, {"alerts.jsonl": Deadly()}, AlertsConfig(), now=0.0, save=lambda: write_alert_state(paths, state))


@pytest.mark.parametrize("after", ["begin", "send"])
def test_a_watcher_that_is_killed_while_it_sends_neither_loses_nor_doubles_a_line(tmp_path: Path, after: str) -> None:
    paths, clock = RunPaths(tmp_path), Clock()
    clock.look(0, STALL)
    write_alert_state(paths, clock.state)
    process = multiprocessing.get_context("fork").Process(target=_send_and_die, args=(tmp_path, after))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    _send_and_die(tmp_path, "never")
    lines = (paths.alerts / "alerts.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1]
    assert read_alert_state(paths).messages[0].pending == ["chat"]


def _hold(folder: Path) -> None:
    with alert_lock(RunPaths(folder)):
        (folder / "held").touch()
        signal.pause()


def test_two_watchers_do_not_look_at_the_same_time_and_a_killed_one_frees_the_run(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_hold, args=(tmp_path,))
    process.start()
    try:
        wait_for(lambda: (tmp_path / "held").exists())
        with pytest.raises(TryAgainError, match="another process looks"), alert_lock(RunPaths(tmp_path)):
            pass
    finally:
        process.kill()
        process.join(60)
    with alert_lock(RunPaths(tmp_path)):
        pass


def test_a_damaged_state_counts_as_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = RunPaths(tmp_path)
    paths.alerts.mkdir()
    (paths.alerts / "state.json").write_text('{"alerts": 3}')
    assert read_alert_state(paths) == AlertState()
    assert "the file is damaged" in capsys.readouterr().err
