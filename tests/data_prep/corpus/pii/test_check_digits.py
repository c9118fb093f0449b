"""Test the validation of check digits."""

import itertools

from data_prep.corpus.pii.check_digits import iban, luhn, verhoeff


def test_check_digits_detect_every_wrong_digit_and_verhoeff_every_swap() -> None:
    for check, number in ((luhn, "4111111111111111"), (verhoeff, "234123412346"), (iban, "DE89370400440532013000")):
        assert check(number)
        for place, digit in itertools.product(range(4, len(number)), "0123456789"):
            changed = number[:place] + digit + number[place + 1 :]
            assert check(changed) == (changed == number)
    number = "234123412346"
    for place in range(len(number) - 1):
        swapped = number[:place] + number[place + 1] + number[place] + number[place + 2 :]
        assert verhoeff(swapped) == (swapped == number)
