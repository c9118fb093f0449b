"""Normally distributed numbers by position: number i of a stream depends only on the key and on i.

The bits are the same on every machine. The random words come from Philox, which is integer arithmetic. The Box-Muller
method (Box and Muller 1958) turns them into numbers with operations whose results IEEE 754 fixes exactly in float64:
+, -, x, /, the square root and conversions. Logarithm, sine and cosine are series here, because those of C libraries
and of numpy differ in their last bits between versions and processors. numpy computes each operation separately, so no
processor fuses a multiplication with an addition. The series have relative errors below 2e-10, which is less than the
rounding to fp32.

A radius has 32 random bits, so no number exceeds 6.77. Larger normal numbers have a probability of 1.3e-11.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bloomery.base.philox import WORDS, philox_words

BLOCKS_AT_A_TIME = 1 << 13
"""Number of blocks that are computed at once. Their arrays fit in a core's cache, because the largest takes 256 KiB."""

_MANTISSA_BITS = 52
_LEAST_MANTISSA = np.float64(np.sqrt(0.5)).view(np.int64)
"""Bits of sqrt(1/2). The mantissa of the logarithm's argument is between sqrt(1/2) and sqrt(2)."""
_LN_2 = 0.6931471805599453
_ARTANH = (1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)
"""Taylor series of artanh(t) / t in t^2, highest power first. Here |t| is at most 0.172."""
_SINE = (
    -3.598843235212085e-06,
    0.00016044118478735983,
    -0.004681754135318688,
    0.07969262624616705,
    -0.6459640975062463,
    1.5707963267948966,
)
"""Taylor series of sin(pi/2 t) / t in t^2, highest power first. Here |t| is at most 1/2."""
_COSINE = (
    -2.5202042373060607e-05,
    0.0009192602748394266,
    -0.02086348076335296,
    0.25366950790104803,
    -1.2337005501361697,
    1.0,
)
"""Taylor series of cos(pi/2 t) in t^2, highest power first. Here |t| is at most 1/2."""

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.float64]


def normal_numbers(key: int, starts: npt.NDArray[np.int64], length: int, deviation: float) -> npt.NDArray[np.float32]:
    """Return parts of a stream of numbers with mean 0, fp32 [number of starts, length].

    Row r has the numbers starts[r] to starts[r] + length - 1 of the stream. A number takes about 11 ns on one core of a
    machine with AVX-512 (90 million numbers a second). torch's sequential `normal_` takes 4 ns there, but a rank would
    have to draw the numbers of all tensor-parallel shards.

    Args:
        key: 64-bit key of the stream.
        starts: position of each row's first number.
        length: number of numbers in each row.
        deviation: standard deviation, by which the numbers are multiplied in float64.
    """
    # A row may begin and end within a block.
    blocks_per_row = (length + 2 * WORDS - 2) // WORDS
    blocks = (starts[:, None] // WORDS + np.arange(blocks_per_row)).astype(np.uint64)
    numbers = _normal_blocks(key, blocks.ravel(), deviation).reshape(len(starts), blocks_per_row * WORDS)
    within = starts % WORDS
    if (within == within[0]).all():
        return numbers[:, within[0] : within[0] + length]
    return np.take_along_axis(numbers, within[:, None] + np.arange(length), axis=1)


def _normal_blocks(key: int, blocks: Words, deviation: float) -> npt.NDArray[np.float32]:
    """Return the four numbers of each block, fp32 [blocks, 4]."""
    found = np.empty((blocks.size, WORDS), dtype=np.float32)
    for first in range(0, blocks.size, BLOCKS_AT_A_TIME):
        part = slice(first, first + BLOCKS_AT_A_TIME)
        words = philox_words(key, blocks[part])
        one, other = _pairs(words[0::2], words[1::2])
        one *= deviation
        other *= deviation
        found[part, 0::2], found[part, 1::2] = one.T, other.T
    return found


def _pairs(radius_words: Words, angle_words: Words) -> tuple[Numbers, Numbers]:
    """Return two independent numbers for each pair of 32-bit words (Box-Muller)."""
    # The pair is sqrt(-2 ln u) times the cosine and the sine of an angle, with two random signs. The angle is 45
    # degrees plus `turn` quarters of a circle. cos(45 + x) is (cos x - sin x) / sqrt(2), so sqrt(2) cancels.
    radius = np.sqrt(_minus_logarithm(radius_words))
    turn = (angle_words & np.uint64((1 << 30) - 1)).astype(np.float64)
    turn += 0.5 - (1 << 29)
    turn *= 2.0**-30
    square = turn * turn
    sine, cosine = _series(_SINE, square), _series(_COSINE, square)
    sine *= turn
    one, other = cosine - sine, cosine + sine
    for numbers, bit in ((one, 31), (other, 30)):
        numbers *= radius
        # Bit 63 of a float64 is its sign.
        signs = angle_words & np.uint64(1 << bit)
        signs <<= np.uint64(63 - bit)
        numbers.view(np.uint64)[...] ^= signs
    return one, other


def _minus_logarithm(words: Words) -> Numbers:
    """Return -ln((word + 1/2) / 2^32) of 32-bit words. The result is positive."""
    bits = (words * np.uint64(2) + np.uint64(1)).astype(np.float64).view(np.int64)
    exponent = (bits - _LEAST_MANTISSA) >> _MANTISSA_BITS
    mantissa = (bits - (exponent << _MANTISSA_BITS)).view(np.float64)
    # ln m = 2 artanh((m - 1) / (m + 1))
    t = (mantissa - 1.0) / (mantissa + 1.0)
    logarithm = _series(_ARTANH, t * t)
    logarithm *= t
    logarithm *= -2.0
    logarithm -= (exponent - 33) * _LN_2
    return logarithm


def _series(coefficients: tuple[float, ...], x: Numbers) -> Numbers:
    """Return the polynomial with these coefficients, highest power first (Horner's method)."""
    total = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= x
    total += coefficients[-1]
    return total
