"""Find national identity and tax numbers of persons that have check digits. The table has one row per kind of number.

To add a kind, write its check and add a row. Numbers without a check digit (SSN of the USA, NIK of Indonesia), numbers
of companies, and Corsican NIRs, which have a letter in the middle, are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from data_prep.corpus.pii import check_digits
from data_prep.corpus.pii.passage import Passage, label
from data_prep.corpus.pii.spans import Span

_SPANISH_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_CHINESE_CHECK = "10X98765432"
_TAIWANESE_REGIONS = "ABCDEFGHJKLMNPQRSTUVXYWZIO"
"""Letters of the regions, in the order of the regions' numbers, which begin at 10."""


def _dni(number: str) -> bool:
    return _SPANISH_LETTERS[int(number[:8]) % 23] == number[8]


def _nie(number: str) -> bool:
    return _dni(str("XYZ".index(number[0])) + number[1:])


def _cpf(number: str) -> bool:
    first = check_digits.weighted(number, range(10, 1, -1)) * 10 % 11 % 10
    second = check_digits.weighted(number, range(11, 1, -1)) * 10 % 11 % 10
    return len(set(number)) > 1 and number[9:] == f"{first}{second}"


def _nir(number: str) -> bool:
    return 97 - int(number[:13]) % 97 == int(number[13:])


def _resident(number: str) -> bool:
    """Return whether the number passes ISO 7064 modulo 11-2 over region, date of birth and serial number (GB 11643)."""
    total = check_digits.weighted(number, [2 ** (17 - place) % 11 for place in range(17)])
    return (
        check_digits.is_date(number[6:10], number[10:12], number[12:14])
        and _CHINESE_CHECK[total % 11] == number[17].upper()
    )


def _taiwanese(number: str) -> bool:
    region = str(_TAIWANESE_REGIONS.index(number[0]) + 10)
    return check_digits.weighted(region + number[1:], [1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1]) % 10 == 0


def _south_african(number: str) -> bool:
    born = any(check_digits.is_date(century + number[:2], number[2:4], number[4:6]) for century in ("19", "20"))
    return born and check_digits.luhn(number)


def _nhs(number: str) -> bool:
    return 11 - check_digits.weighted(number, range(10, 1, -1)) % 11 in (int(number[9]), int(number[9]) + 11)


def _nif(number: str) -> bool:
    rest = check_digits.weighted(number, range(9, 1, -1)) % 11
    return int(number[8]) == (0 if rest < 2 else 11 - rest)


def _cuil(number: str) -> bool:
    return (11 - check_digits.weighted(number, [5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11) % 11 == int(number[10])


def _rut(number: str) -> bool:
    return "0123456789K0"[11 - check_digits.weighted(number[-2::-1], [2, 3, 4, 5, 6, 7] * 2) % 11] == number[-1].upper()


def _of(digits: int) -> range:
    return range(digits, digits + 1)


class Identifier(NamedTuple):
    """A kind of identity number."""

    name: str
    """Country (ISO 3166-1 code) and the number's name in that country."""
    form: str
    """Pattern of the written number. `~` is one separator (space, dot, hyphen) or none, the same in all places."""
    digits: range
    """Possible counts of digits. Letters are not counted."""
    check: Callable[[str], bool]
    """Function that validates the letters and digits of a number."""
    languages: str
    """Codes of the languages in which the number needs no word before it; `*` for all languages."""
    words: str
    """Alternatives of a regular expression. In any language, one of these words before the number confirms the kind of
    number."""


IDENTIFIERS = [
    Identifier("ES DNI", r"\d{8}[ -]?[A-HJ-NP-TV-Z]", _of(8), _dni, "es ca eu", "dni|nif|d\\.n\\.i\\.|identidad"),
    Identifier("ES NIE", r"[XYZ][ -]?\d{7}[ -]?[A-HJ-NP-TV-Z]", _of(7), _nie, "es ca eu", "nie|nif|n\\.i\\.e\\."),
    Identifier("BR CPF", r"\d{3}\.\d{3}\.\d{3}-\d{2}", _of(11), _cpf, "*", "cpf"),
    Identifier("BR CPF", r"\d{11}", _of(11), _cpf, "", "cpf"),
    Identifier(
        "FR NIR",
        r"[12]~\d\d~(?:0[1-9]|1[0-2]|[2-9]\d)~\d\d~\d{3}~\d{3}~\d\d",
        _of(15),
        _nir,
        "*",
        "nir|sécurité sociale",
    ),
    Identifier("CN resident", r"[1-8]\d{5}(?:19|20)\d{9}[\dXx]", range(17, 19), _resident, "*", "身份证|身份證"),
    Identifier("TW identity card", r"[A-Z][1289]\d{8}", _of(9), _taiwanese, "zht", "身分證|身份證"),
    Identifier(
        "IN Aadhaar",
        r"[2-9]\d{3}~\d{4}~\d{4}",
        _of(12),
        check_digits.verhoeff,
        "",
        "aadhaa?r|uidai|आधार|আধার|ஆதார்|ఆధార్|આધાર",
    ),
    Identifier("ZA identity", r"\d{13}", _of(13), _south_african, "zu xh st nso tn ts", "id|identity|rsa id"),
    Identifier("GB NHS", r"\d{3}~\d{3}~\d{4}", _of(10), _nhs, "", "nhs"),
    Identifier("PT NIF", r"[1-3]\d\d~\d{3}~\d{3}", _of(9), _nif, "", "nif|contribuinte"),
    Identifier("AR CUIL", r"2[0347]-\d{8}-\d", _of(11), _cuil, "es", "cui[lt]"),
    Identifier("CL RUT", r"\d{1,2}\.\d{3}\.\d{3}-[\dKk]", range(7, 10), _rut, "es", "ru[tn]"),
]


class _Ready(NamedTuple):
    """A kind of identity number with compiled patterns."""

    form: re.Pattern[str]
    lettered: bool
    """Whether the number begins with a letter."""
    check: Callable[[str], bool]
    languages: frozenset[str]
    words: re.Pattern[str]

    @classmethod
    def of(cls, kind: Identifier) -> _Ready:
        form = re.compile(kind.form.replace("~", r"([ .\-]?)", 1).replace("~", r"\1"))
        return cls(
            form,
            kind.form.startswith(("[A-Z]", "[XYZ]")),
            kind.check,
            frozenset(kind.languages.split()),
            label(kind.words),
        )


_BY_DIGITS = {
    count: [_Ready.of(kind) for kind in IDENTIFIERS if count in kind.digits]
    for count in range(min(kind.digits.start for kind in IDENTIFIERS), max(kind.digits.stop for kind in IDENTIFIERS))
}


def find_identifiers(passage: Passage) -> Iterator[Span]:
    """Yield identity numbers with correct check digits, if form, language or a word before them confirms their kind."""
    text = passage.text
    for number in passage.numbers:
        kinds = _BY_DIGITS.get(len(number.digits))
        if not kinds:
            continue
        # A letter may come before or after the digits, with a space, a hyphen or nothing between them.
        head = min(number.start, 2)
        window = text[number.start - head : number.start] + number.written + text[number.end : number.end + 2]
        for kind in kinds:
            for offset in range(head) if kind.lettered else (head,):
                match = kind.form.match(window, offset)
                # The number must include all digits of the run.
                if match and match.end() >= head + len(number.written):
                    start = number.start - head + offset
                    span = Span(start, start + len(match.group()), "national_id")
                    if _holds(kind, match.group(), span, passage):
                        yield span


def _holds(kind: _Ready, written: str, span: Span, passage: Passage) -> bool:
    return (
        (
            passage.language in kind.languages
            or "*" in kind.languages
            or bool(kind.words.search(passage.before(span.start)))
        )
        and kind.check("".join(filter(str.isalnum, written)))
        and passage.stands_alone(span.start, span.end)
        and not passage.is_other_number(span.start)
    )
