"""Test the Hub client's retries: their pauses, and how long it retries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import TryAgainError
from bloomery.base.hub import Hub
from bloomery.base.hub_retries import pause_seconds


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
def test_the_pause_follows_the_hubs_headers_or_doubles_with_each_attempt(headers, attempt, seconds):
    assert pause_seconds(headers, attempt) == seconds


class Clock:
    """A clock that only `sleep` and the calls of a test move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("bloomery.base.hub.time", found)
    return found


def transfer(clock: Clock, attempts: list[float]) -> Callable[[], str]:
    """Return a call whose attempts fail after the given numbers of seconds, until the last one succeeds."""
    left: Iterator[float] = iter(attempts)

    def call() -> str:
        seconds = next(left, None)
        if seconds is None:
            return "done"
        clock.now += seconds
        raise ConnectionError("dropped")

    return call


@pytest.mark.parametrize("attempts", [[1200.0], [1200.0, 5.0, 5.0], [1200.0, 1200.0, 1200.0]])
def test_a_drop_late_in_a_long_transfer_is_retried(clock: Clock, attempts: list[float]) -> None:
    hub = Hub(None, retry_seconds=900)
    assert hub._run("upload", transfer(clock, attempts)) == "done"


def test_drops_are_retried_as_long_as_more_is_received_between_them(clock: Clock) -> None:
    hub, received = Hub(None, retry_seconds=900), iter(range(20))
    assert hub._run("download", transfer(clock, [300.0] * 20), lambda: next(received)) == "done"


@pytest.mark.parametrize("grows", [True, False])
def test_bytes_in_the_cache_are_the_progress_of_a_download(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, grows: bool
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    blobs = tmp_path / "models--owner--name/blobs"
    blobs.mkdir(parents=True)
    call = transfer(clock, [300.0] * 10)

    def snapshot(*_: Any, **__: Any) -> str:
        with (blobs / "0.incomplete").open("ab") as file:
            file.write(b"0" * grows)
        return call()

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    hub = Hub(None, retry_seconds=900)
    if grows:
        assert hub.download("owner/name", "0" * 40, ["a"]) == Path("done")
    else:
        with pytest.raises(TryAgainError):
            hub.download("owner/name", "0" * 40, ["a"])


def test_the_retries_end_900_seconds_after_the_first_failure_without_progress(clock: Clock) -> None:
    with pytest.raises(TryAgainError, match="cannot download: dropped"):
        Hub(None, retry_seconds=900)._run("download", transfer(clock, [1200.0] + [1.0] * 10_000), lambda: 7)
    assert 900 - 62 <= clock.now - 1000 - 1200 <= 900
