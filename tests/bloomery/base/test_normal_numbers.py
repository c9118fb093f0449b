"""Test the normally distributed numbers."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from bloomery.base import normal_numbers as module
from bloomery.base.normal_numbers import normal_numbers
from bloomery.base.philox import philox_words

COUNT = 1 << 20


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    """Return a million numbers of a stream, as float64."""
    return normal_numbers(5, np.array([0]), COUNT, 1.0)[0].astype(np.float64)


def test_the_distribution_is_normal(numbers: np.ndarray) -> None:
    # Each limit is about 5 standard errors of a million independent normal numbers.
    error = 1 / math.sqrt(COUNT)
    assert abs(numbers.mean()) < 5 * error
    assert abs(numbers.var() - 1) < 5 * math.sqrt(2) * error
    assert abs((numbers**3).mean()) < 5 * math.sqrt(15) * error
    assert abs((numbers**4).mean() - 3) < 5 * math.sqrt(96) * error
    # Kolmogorov-Smirnov: the largest distance of the distribution functions, with a false alarm in 1e-6 of all seeds.
    ordered = np.sort(numbers)[:: COUNT >> 10]
    exact = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in ordered])
    assert np.abs(exact - np.arange(len(ordered)) / len(ordered)).max() < 2.7 * error


def test_neighbours_slices_and_streams_are_uncorrelated(numbers: np.ndarray) -> None:
    error = 1 / math.sqrt(COUNT)
    for distance in (1, 2, 3, 4, 5, 64, COUNT // 2):
        product = numbers[:-distance] * numbers[distance:]
        assert abs(product.mean()) < 5 / math.sqrt(len(product)), distance
        # Box-Muller's two numbers share a radius, which must not correlate their squares either.
        squares = (numbers[:-distance] ** 2 - 1) * (numbers[distance:] ** 2 - 1)
        assert abs(squares.mean()) < 5 * 2 / math.sqrt(len(squares)), distance
    other = normal_numbers(6, np.array([0]), COUNT, 1.0)[0]
    assert abs((numbers * other).mean()) < 5 * error


@pytest.mark.parametrize("length", [1, 2, 7, 64, 40_000])
def test_every_part_of_a_stream_equals_the_whole(numbers: np.ndarray, length: int) -> None:
    for starts in ([0, 4, 100], [3, 10, 17], [65_533]):
        parts = normal_numbers(5, np.array(starts), length, 1.0)
        assert parts.dtype == np.float32
        for start, part in zip(starts, parts, strict=True):
            assert np.array_equal(part, numbers[start : start + length])


def test_positions_above_2_to_the_34_have_their_own_numbers(numbers: np.ndarray) -> None:
    """The embedding of BLOOM-176B has 3.6e9 elements, so positions do not fit in 32 bits."""
    far = normal_numbers(5, np.array([2**34]), 64, 1.0)[0]
    assert not np.array_equal(far, numbers[:64])
    words = philox_words(5, np.array([2**32], dtype=np.uint64))
    one, other = module._pairs(words[0::2], words[1::2])
    assert far[:4].tolist() == np.float32([one[0, 0], other[0, 0], one[1, 0], other[1, 0]]).tolist()


def test_the_numbers_are_those_of_an_independent_computation() -> None:
    """The numbers were computed from the known definition of Philox with Python's integers and `math` module."""
    found = normal_numbers(0x0123456789ABCDEF, np.array([0]), 8, 0.02)[0]
    assert found.tolist() == [
        -0.016061987727880478,
        -0.0022013827692717314,
        0.006018020678311586,
        -0.04446985200047493,
        0.015867894515395164,
        -0.00762080168351531,
        -0.008797864429652691,
        0.0257810577750206,
    ]


def test_the_bits_are_the_same_on_every_machine() -> None:
    """The digest was recorded on a processor with AVX-512. With other bits, a machine would draw other weights."""
    found = normal_numbers(5, np.array([0]), COUNT, 1.0)
    assert hashlib.sha256(found.tobytes()).hexdigest() == (
        "0f36c388de93d7b73997ca013585636118e1be3eb1ce8c21234cd11029d82d96"
    )


def test_the_series_agree_with_the_c_library() -> None:
    random = np.random.default_rng(1)
    words = np.concatenate([random.integers(0, 2**32, 10_000), [0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]])
    logarithm = module._minus_logarithm(words.astype(np.uint64)[None])[0]
    for word, found in zip(words.tolist(), logarithm.tolist(), strict=True):
        assert found == pytest.approx(-math.log1p((word + 0.5) / 2**32 - 1), rel=2e-10)
    angles = random.integers(0, 2**32, (1, len(words))).astype(np.uint64)
    one, other = module._pairs(words.astype(np.uint64)[None], angles)
    radius = np.sqrt(-2 * np.log1p((words + 0.5) / 2**32 - 1))
    assert np.abs(np.hypot(one, other) / radius - 1).max() < 2e-10
    # An angle has 30 bits and two signs. The angles are spread evenly over the circle.
    turns = np.sort(np.arctan2(other[0], one[0])) / (2 * math.pi) + 0.5
    assert np.abs(turns - np.arange(len(turns)) / len(turns)).max() < 2.7 / math.sqrt(len(turns))
