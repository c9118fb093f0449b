"""The client's own rules: how long to wait, what to try again, what never to say."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from hub_support import TOKEN

from bloomery.base.bundle import LocalFile, contains_token
from bloomery.base.hub import pause_seconds


@pytest.mark.parametrize(
    ("headers", "attempt", "seconds"),
    [
        ({"RateLimit": '"api";r=0;t=55'}, 0, 56),
        ({"RateLimit": '"api";r=0;t=55', "Retry-After": "3"}, 0, 56),
        ({"Retry-After": "3"}, 5, 3),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0, 1),
        ({}, 0, 1),
        ({}, 3, 8),
        ({}, 50, 60),
    ],
)
def test_the_pause_is_what_the_hub_asks_for_else_it_doubles(headers, attempt, seconds):
    assert pause_seconds(headers, attempt) == seconds


def test_digests_are_those_of_sha256sum_and_git(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"hello\n")
    file = LocalFile.of(path)
    # `sha256sum` and `git hash-object` of "hello\n"
    assert file.sha256 == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert file.git_oid == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert LocalFile.of(b"hello\n") == LocalFile(b"hello\n", 6, file.sha256, file.git_oid)


def test_a_token_across_the_border_of_two_pieces_is_found(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * ((1 << 20) - 5) + TOKEN.encode() + b"x" * 100)
    assert contains_token(path, TOKEN)
    path.write_bytes(b"x" * (1 << 21))
    assert not contains_token(path, TOKEN)


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


def test_a_hub_that_is_down_ends_as_try_again(hub):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = ask(f"http://127.0.0.1:{free.getsockname()[1]}", 1.5, hub.environment)
    assert done.stdout.startswith("TryAgainError"), done.stderr
    assert "cannot ask who the token belongs to" in done.stdout
    assert TOKEN not in done.stdout + done.stderr


@pytest.mark.slow
def test_an_answer_that_never_comes_does_not_block(hub):
    hub.faults({"path": "whoami", "delay": 5, "times": 1})
    done = ask(hub.url, 30, hub.environment)
    assert done.stdout.strip() == "tester", done.stderr
    assert "trying again" in done.stderr


def test_an_error_that_quotes_the_token_is_cleaned(hub):
    hub.faults({"path": "whoami", "status": 400, "message": f"bad token {TOKEN}", "times": 9})
    done = ask(hub.url, 1, hub.environment)
    assert done.stdout.startswith("InputError")
    assert TOKEN not in done.stdout + done.stderr


def test_a_timeout_that_is_no_number_is_refused(hub):
    done = ask(hub.url, 1, hub.environment, BLOOMERY_HUB_TIMEOUT="soon")
    assert "BLOOMERY_HUB_TIMEOUT: is 'soon'" in done.stdout
    assert hub.read("/_test/log") == []
