"""Test the Hub client: its timeout, its retries, and that it never shows the token."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from hub_support import TOKEN


def ask(url: str, seconds: float, environment: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
    code = f"""
import sys
from bloomery.base import hub
from bloomery.base.errors import BloomeryError
try:
    print(hub.Hub({TOKEN!r}, retry_seconds={seconds}).user())
except BloomeryError as error:
    print(type(error).__name__, error)
"""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"HF_ENDPOINT": url, "BLOOMERY_HUB_TIMEOUT": "1"} | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_unreachable_hub_raises_a_try_again_error(hub):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = ask(f"http://127.0.0.1:{free.getsockname()[1]}", 1.5, hub.environment)
    assert done.stdout.startswith("TryAgainError"), done.stderr
    assert "cannot look up the user of the token" in done.stdout
    assert TOKEN not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_request_without_an_answer_is_retried(hub):
    hub.faults({"path": "whoami", "delay": 5, "times": 1})
    done = ask(hub.url, 30, hub.environment)
    assert done.stdout.strip() == "tester", done.stderr
    assert "retrying in" in done.stderr


def test_the_token_is_removed_from_an_error_that_quotes_it(hub):
    hub.faults({"path": "whoami", "status": 400, "message": f"bad token {TOKEN}", "times": 9})
    done = ask(hub.url, 1, hub.environment)
    assert done.stdout.startswith("InputError")
    assert TOKEN not in done.stdout + done.stderr


def test_a_timeout_that_is_not_a_number_is_refused(hub):
    done = ask(hub.url, 1, hub.environment, BLOOMERY_HUB_TIMEOUT="soon")
    assert "BLOOMERY_HUB_TIMEOUT: the value 'soon' is not valid" in done.stdout
    assert hub.read("/_test/log") == []
