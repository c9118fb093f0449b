"""Test the Hub client's pauses between retries."""

from __future__ import annotations

import pytest

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
def test_the_pause_follows_the_hubs_headers_or_doubles_with_each_attempt(headers, attempt, seconds):
    assert pause_seconds(headers, attempt) == seconds
