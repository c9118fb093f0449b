"""Test that messages reach receivers of every kind, and that failures and secrets are handled."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

import pytest
from smtp_server import running_smtp
from webhook import Webhook, running_webhook

from bloomery.base.errors import TryAgainError
from bloomery.config.alerts import AlertsConfig
from bloomery.contracts.paths import RunPaths
from monitoring.alerts.channels import CommandChannel, FileChannel, ServiceChannel, channels
from monitoring.alerts.heartbeat import beat
from monitoring.alerts.state import Message
from monitoring.alerts.trial import send_test

SECRET = "s3cr3tt0k3n"
SECONDS = 60.0


def message(number: int = 1) -> Message:
    return Message(
        id=number,
        event="alert",
        key="stall",
        severity="critical",
        run="runs/big",
        time="2026-01-01T00:00:00Z",
        at=0.0,
        title="[critical] big: the training makes no progress",
        text="What happened: no iteration.\nWhere: node1",
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_a_webhook_gets_title_text_and_severity() -> None:
    with running_webhook() as hook:
        ServiceChannel("web", f"json://127.0.0.1:{hook.port}/{SECRET}").send(message(), SECONDS)
    (body,) = hook.bodies
    assert (body["title"], body["message"], body["type"]) == (message().title, message().text, "failure")


def test_a_chat_with_the_messages_of_slack_gets_title_and_text() -> None:
    # Mattermost's webhooks have the form of Slack's, and may be on any host.
    with running_webhook() as hook:
        ServiceChannel("chat", f"mmost://127.0.0.1:{hook.port}/{SECRET * 3}").send(message(), SECONDS)
    (body,) = hook.bodies
    assert message().title in json.dumps(body)
    assert "Where: node1" in body["text"]


def test_a_mail_has_title_and_text() -> None:
    with running_smtp() as box:
        url = f"mailto://127.0.0.1:{box.port}/?from=bloomery@example.org&to=me@example.org&mode=insecure"
        ServiceChannel("mail", url).send(message(), SECONDS)
    (mail,) = box.mails
    assert mail["Subject"] == message().title
    assert mail["To"] == "me@example.org"
    assert "Where: node1" in box.texts[0]


def test_a_command_gets_the_message_as_json(tmp_path: Path) -> None:
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"
    CommandChannel("command", [sys.executable, "-c", code, str(tmp_path / "got")]).send(message(), SECONDS)
    assert json.loads((tmp_path / "got").read_text()) == message().public


def test_a_file_gets_each_message_once_also_after_an_unfinished_line(tmp_path: Path) -> None:
    channel = FileChannel("file", tmp_path / "folder" / "all.jsonl")
    channel.send(message(1), SECONDS)
    channel.send(message(1), SECONDS)
    with channel.path.open("a") as handle:
        handle.write('{"unfinished')
    channel.send(message(2), SECONDS)
    lines = channel.path.read_text().splitlines()
    assert [json.loads(lines[number])["id"] for number in (0, 2)] == [1, 2]
    assert len(lines) == 3


def test_failures_state_their_reason_without_the_url(tmp_path: Path) -> None:
    with running_webhook() as hook:
        hook.status = 503
        with pytest.raises(TryAgainError, match="HTTP status 503") as refused:
            ServiceChannel("web", f"json://127.0.0.1:{hook.port}/{SECRET}").send(message(), SECONDS)
    with pytest.raises(TryAgainError, match="the service failed: ") as absent:
        ServiceChannel("web", f"json://user:{SECRET}@127.0.0.1:{free_port()}/{SECRET}").send(message(), SECONDS)
    with pytest.raises(TryAgainError, match="apprise does not understand the URL") as wrong:
        ServiceChannel("web", f"nonsense://{SECRET}").send(message(), SECONDS)
    with pytest.raises(TryAgainError, match="exit code 3"):
        CommandChannel("command", [sys.executable, "-c", "raise SystemExit(3)"]).send(message(), SECONDS)
    with pytest.raises(TryAgainError, match="cannot be started"):
        CommandChannel("command", [str(tmp_path / "absent")]).send(message(), SECONDS)
    for caught in (refused, absent, wrong):
        assert SECRET not in str(caught.value)
    assert SECRET not in repr(ServiceChannel("web", SECRET))


@pytest.mark.parametrize("kind", ["service", "command"])
def test_a_receiver_that_does_not_answer_is_given_up(kind: str) -> None:
    with running_webhook() as hook:
        hook.delay_seconds = 30.0
        slow = {
            "service": ServiceChannel("web", f"json://127.0.0.1:{hook.port}/x?cto=60&rto=60"),
            "command": CommandChannel("command", ["sh", "-c", "sleep 30 & wait"]),
        }
        began = time.monotonic()
        with pytest.raises(TryAgainError, match="did not answer within 4 s"):
            slow[kind].send(message(), 4.0)
        assert time.monotonic() - began < 25


def test_urls_come_from_the_environment_and_are_numbered(tmp_path: Path) -> None:
    settings = AlertsConfig(urls_from=["FIRST", "ABSENT", "SECOND"], command=["true"], file=str(tmp_path / "f"))
    found = channels(RunPaths(tmp_path), settings, {"FIRST": "a://x  b://y\n", "SECOND": "c://z"})
    assert list(found) == ["alerts.jsonl", "file", "command", "FIRST[1]", "FIRST[2]", "SECOND[1]"]


def test_a_url_in_the_configuration_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="the name of an environment variable"):
        AlertsConfig(urls_from=["slack://a/b/c"])


def test_the_heartbeat_writes_its_file_and_requests_its_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = AlertsConfig(heartbeat_file=str(tmp_path / "alive"), heartbeat_url_from="BEAT", send_seconds=10)
    with running_webhook() as hook:
        environment = {"BEAT": f"http://127.0.0.1:{hook.port}/{SECRET}"}
        beat(settings, "PULSE", environment)
        assert hook.paths == [f"/{SECRET}"]
        assert (tmp_path / "alive").read_text() == "PULSE\n"
        hook.status = 500
        beat(settings, "PULSE", environment)
    assert "the heartbeat's URL (BEAT) was not reached: HTTP status 500" in capsys.readouterr().err
    beat(settings, "PULSE", {"BEAT": f"http://127.0.0.1:{free_port()}/{SECRET}"})
    beat(settings, "PULSE", {"BEAT": f"file:///{SECRET}"})
    talk = capsys.readouterr().err
    assert "ConnectionRefusedError" in talk
    assert "not an HTTP or HTTPS URL" in talk
    assert SECRET not in talk


def hook_settings(hook: Webhook) -> dict[str, str]:
    return {"BLOOMERY_ALERT_URLS": f"json://127.0.0.1:{hook.port}/a json://127.0.0.1:{free_port()}/{SECRET}"}


def test_a_test_message_reports_the_result_of_each_receiver(tmp_path: Path) -> None:
    with running_webhook() as hook:
        results = send_test(RunPaths(tmp_path), AlertsConfig(), hook_settings(hook))
    assert [(each.receiver, each.error is None) for each in results] == [
        ("alerts.jsonl", True),
        ("BLOOMERY_ALERT_URLS[1]", True),
        ("BLOOMERY_ALERT_URLS[2]", False),
    ]
    assert SECRET not in str(results)
    assert hook.bodies[0]["title"].startswith("[test] ")
