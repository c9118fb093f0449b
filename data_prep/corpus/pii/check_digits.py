"""Check digits. Numbers are strings of ASCII digits, with letters if the kind of number has them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

_VERHOEFF_PRODUCT = [[(a + b if a < 5 else a - b) % 5 + 5 * ((a < 5) != (b < 5)) for b in range(10)] for a in range(10)]
"""Multiplication in the dihedral group of order ten (J. Verhoeff, Error detecting decimal codes, 1969)."""
_VERHOEFF_STEP = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]


def luhn(digits: str) -> bool:
    """Return whether the number passes Luhn's check (ISO/IEC 7812-1, annex B)."""
    doubled = (2 * int(digit) for digit in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(value // 10 + value % 10 for value in doubled)) % 10 == 0


def verhoeff(digits: str) -> bool:
    """Return whether the number passes Verhoeff's check, used by Aadhaar.

    The digit at place p, counted from 0 at the right, is permuted p times.
    """
    check = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        for _ in range(place % 8):
            value = _VERHOEFF_STEP[value]
        check = _VERHOEFF_PRODUCT[check][value]
    return check == 0


def iban(characters: str) -> bool:
    """Return whether the number passes the check of ISO 13616.

    The first four characters are moved to the end, and letters become 10 to 35. The result must be 1 modulo 97.
    """
    return int("".join(str(int(character, 36)) for character in characters[4:] + characters[:4])) % 97 == 1


def weighted(digits: str, weights: Sequence[int]) -> int:
    """Return the sum of each digit times its weight."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def is_date(year: str, month: str, day: str) -> bool:
    """Return whether the date exists."""
    try:
        datetime.date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True
