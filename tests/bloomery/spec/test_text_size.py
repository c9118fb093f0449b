"""Test the estimate of the bytes of a token."""

from __future__ import annotations

import pytest

from bloomery.spec.text_size import bytes_per_token


def test_bytes_per_token_are_known_for_the_smallest_and_a_large_vocabulary() -> None:
    assert bytes_per_token(256) == 1
    assert bytes_per_token(250_680) == pytest.approx(4.7)
