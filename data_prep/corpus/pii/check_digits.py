"""Check digits: pure functions of a string of ASCII digits (and letters, where the number has them)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

_VERHOEFF_PRODUCT = [[(a + b if a < 5 else a - b) % 5 + 5 * ((a < 5) != (b < 5)) for b in range(10)] for a in range(10)]
"""Multiplication in the dihedral group of order ten (J. Verhoeff, Error detecting decimal codes, 1969)."""
_VERHOEFF_STEP = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]


def luhn(digits: str) -> bool:
    """ISO/IEC 7812-1, annex B."""
    doubled = (2 * int(digit) for digit in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(value // 10 + value % 10 for value in doubled)) % 10 == 0


def verhoeff(digits: str) -> bool:
    """The check of Aadhaar numbers: each place permutes its digit once more."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        for _ in range(place % 8):
            value = _VERHOEFF_STEP[value]
        check = _VERHOEFF_PRODUCT[check][value]
    return check == 0


def iban(characters: str) -> bool:
    """ISO 13616: moved by four places and with letters as 10 to 35, the number is 1 modulo 97."""
    return int("".join(str(int(character, 36)) for character in characters[4:] + characters[:4])) % 97 == 1


def weighted(digits: str, weights: Sequence[int]) -> int:
    """The sum of digit times weight."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def is_date(year: str, month: str, day: str) -> bool:
    """Whether such a day exists."""
    try:
        datetime.date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True
