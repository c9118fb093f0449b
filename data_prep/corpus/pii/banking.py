"""Find bank accounts (IBAN) and payment cards, and validate their check digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from data_prep.corpus.pii import check_digits
from data_prep.corpus.pii.passage import Passage
from data_prep.corpus.pii.spans import Span

IBAN_LENGTHS = {
    # Number of characters per country in the ISO 13616 registry, including country code and check digits.
    **dict.fromkeys(["NO"], 15),
    **dict.fromkeys(["BE"], 16),
    **dict.fromkeys(["DK", "FI", "FK", "FO", "GL", "NL", "SD"], 18),
    **dict.fromkeys(["MK", "SI"], 19),
    **dict.fromkeys(["AT", "BA", "EE", "KZ", "LT", "LU", "MN", "XK"], 20),
    **dict.fromkeys(["CH", "CR", "HR", "LI", "LV"], 21),
    **dict.fromkeys(["BG", "BH", "DE", "GB", "GE", "IE", "ME", "RS", "VA"], 22),
    **dict.fromkeys(["AE", "GI", "IL", "IQ", "OM", "SO", "TL"], 23),
    **dict.fromkeys(["AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN", "VG"], 24),
    **dict.fromkeys(["LY", "PT", "ST"], 25),
    **dict.fromkeys(["IS", "TR"], 26),
    **dict.fromkeys(["BI", "DJ", "FR", "GR", "IT", "MC", "MR", "SM"], 27),
    **dict.fromkeys(["AL", "AZ", "BY", "CY", "DO", "GT", "HN", "HU", "LB", "NI", "PL", "SV"], 28),
    **dict.fromkeys(["BR", "EG", "PS", "QA", "UA"], 29),
    **dict.fromkeys(["JO", "KW", "MU", "YE"], 30),
    **dict.fromkeys(["MT", "SC"], 31),
    **dict.fromkeys(["LC"], 32),
    **dict.fromkeys(["RU"], 33),
}

# The pattern begins at digits, which are rarer than capitals, and looks back for the country code.
_IBAN_START = re.compile(r"[0-9](?<=(?<![A-Za-z0-9_])[A-Z]{2}[0-9])[0-9]")
_IBAN_BODY = re.compile(r"(?:[ \u00a0\u202f\-]?[0-9A-Z]){11,29}")
_GOES_ON = re.compile(r"[A-Za-z0-9_]")


def find_ibans(passage: Passage) -> Iterator[Span]:
    """Yield IBANs, in one piece or in groups, with the right length for their country and correct check digits."""
    text = passage.text
    for match in _IBAN_START.finditer(text):
        start = match.start() - 2
        length = IBAN_LENGTHS.get(text[start : start + 2])
        body = _IBAN_BODY.match(text, match.end()) if length else None
        if not body or not length:
            continue
        # A following word in capitals (`BIC`) may look like one more group, so the number is cut at the IBAN length
        # of its country.
        places = [place for place in range(match.end(), body.end()) if text[place].isalnum()][: length - 4]
        if len(places) < length - 4:
            continue
        end = places[-1] + 1
        number = text[start : match.end()] + "".join(text[place] for place in places)
        if not _GOES_ON.match(text, end) and check_digits.iban(number):
            yield Span(start, end, "iban")


def _issuers() -> list[tuple[int, int, frozenset[int]]]:
    """Return a list of (first, last, lengths): a range of six-digit prefixes, and how many digits its cards may have.

    Source: ISO/IEC 7812.
    """
    table = [
        ("4", "4", {13, 16, 19}),  # Visa
        ("51", "55", {16}),  # Mastercard
        ("2221", "2720", {16}),
        ("34", "34", {15}),  # American Express
        ("37", "37", {15}),
        ("300", "305", {14, 16}),  # Diners Club
        ("3095", "3095", {14, 16}),
        ("36", "36", {14, 16}),
        ("38", "39", {14, 16}),
        ("3528", "3589", {16}),  # JCB
        ("60", "60", {16}),  # Discover, RuPay
        ("644", "653", {16}),
        ("62", "62", {16, 19}),  # UnionPay
        ("506099", "506198", {16, 19}),  # Verve
        ("508", "508", {16}),  # RuPay
        ("81", "82", {16}),
        ("2200", "2204", {16}),  # Mir
        ("5018", "5020", {16}),  # Maestro
        ("6304", "6304", {16}),
        ("6759", "6763", {16}),
    ]
    return [(int(a.ljust(6, "0")), int(b.ljust(6, "9")), frozenset(lengths)) for a, b, lengths in table]


_ISSUERS = _issuers()
# The number is in one piece, or in the groups printed on the card with the same separator in all places. An expiry date
# may follow.
_CARD = re.compile(
    r"(?:\d{13,19}|\d{4}([ \-])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?"
    r"|\d{4}([ \-])\d{6}\2\d{4,5})(?= (?:0[1-9]|1[0-2])/\d\d|\Z)"
)


def find_cards(passage: Passage) -> Iterator[Span]:
    """Yield card numbers in an issuer's range, with a valid length and Luhn digit, outside of longer numbers."""
    for number in passage.numbers:
        match = _CARD.match(number.written) if len(number.digits) >= 13 else None
        if not match:
            continue
        start, end = number.start, number.start + match.end()
        digits = "".join(filter(str.isdigit, match.group()))
        head = int(digits[:6])
        known = any(first <= head <= last and len(digits) in lengths for first, last, lengths in _ISSUERS)
        if (
            known
            and check_digits.luhn(digits)
            and passage.stands_alone(start, end)
            and not passage.is_other_number(start)
        ):
            yield Span(start, end, "card")
