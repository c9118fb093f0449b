"""Find telephone numbers: with a calling code, in a national form, or after a word such as `tel`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import lru_cache

from data_prep.corpus.pii.calling_codes import is_international
from data_prep.corpus.pii.countries import NATIONAL, written_forms
from data_prep.corpus.pii.passage import Number, Passage, label
from data_prep.corpus.pii.spans import Span

_WORD = label(
    # Latin script: English, French, Spanish, Portuguese, Catalan, Basque, Indonesian, Vietnamese, Bantu languages.
    "tele?ph?one|phone|tel|telf|tlf|tfno|tél|téléphone|telefon[oiea]?|teléfonos?|telèfons?|telefonoa|telpo?n|telepon|"
    "telp|mobile|mob|cell|cellphone|celular(?:es)?|móvil(?:es)?|mòbil|telemóvel|portable|fax|faks|whats ?app|hotline|"
    "gsm|sms|call|appelez|llame|llamar|trucar|hubungi|hp|no\\.? hp|điện thoại|đt|sđt|đtdđ|di động|simu|namba|numéro|"
    "foonu|ucingo|mogala|founu|"
    # Chinese, Arabic and Indic scripts. They have no case, and some of them are written without spaces.
    "电话|電話|手机|手機|热线|熱線|传真|傳真|致电|致電|هاتف|تلفون|تليفون|جوال|موبايل|محمول|فاكس|واتساب|فون|موبائل|"
    "फ़ोन|फोन|मोबाइल|दूरभाष|मोबाईल|सम्पर्क|संपर्क|ফোন|মোবাইল|ফ্যাক্স|ফোনে|ফোন নম্বর|ਫ਼ੋਨ|ਫੋਨ|ਮੋਬਾਈਲ|ફોન|મોબાઇલ|ଫୋନ|ମୋବାଇଲ|"
    "தொலைபேசி|கைபேசி|மொபைல்|போன்|ఫోన్|మొబైల్|ಫೋನ್|ಮೊಬೈಲ್|ദൂരവാണി|ഫോൺ|മൊബൈൽ"
)
_DECIMAL = re.compile(r"\d{1,3}\.\d+")
_QUANTITY = re.compile(r"[ \u00a0\u202f]\d{3}(?!\d)|[.,]\d")
"""Pattern after a number that shows that its digits are part of a quantity (`+922 337 203 685 477,5808`)."""
_TRUNK = re.compile(r"\(0\)")
_DIGITS = re.compile(r"\d+")
_DATES = re.compile(
    r"(?:19|20)\d\d[ \-–/.](?:19|20)\d\d|(?:19|20)\d\d([\-./ ])\d\d?\1\d\d?.*"
    r"|\d\d?([\-./ ])\d\d?\2(?:19|20)\d\d.*|(?:19|20)\d{6}"
)
_LONGEST = 15  # digits, the limit of E.164

_forms = lru_cache(maxsize=None)(written_forms)


def find_phones(passage: Passage) -> Iterator[Span]:
    """Yield telephone numbers. A number has one of three forms:

    - `+` and a calling code of E.164, with a valid number of digits for this code
    - a `sure` form of a country where the passage's language is spoken (`01 23 45 67 89` in French)
    - a national number of any country after a word such as `tel`
    """
    forms = _forms(passage.language)
    for number in passage.numbers:
        start = _with_sign(passage.text, number.start)
        if start is not None:
            end = _international_end(number)
            if end and passage.opens(start) and not _QUANTITY.match(passage.text, end):
                yield Span(start, end, "phone")
        elif len(number.digits) <= _LONGEST:
            yield from _national(passage, number, forms)


def _with_sign(text: str, start: int) -> int | None:
    """Return the position of the `+` of a number, or None if the number has none."""
    if text[start - 1 : start] == "+":
        return start - 1
    return start - 2 if start > 1 and text[start - 2 : start] == "+(" else None


def _international_end(number: Number) -> int:
    """Return the end of the last group that completes a valid number, or 0 if no group does.

    `(0)` is skipped, because it is not dialled from abroad.
    """
    trunk = _TRUNK.search(number.written)
    decimal = _DECIMAL.fullmatch(number.written)
    digits, end = "", 0
    for group in _DIGITS.finditer(number.written):
        if trunk and group.start() == trunk.start() + 1:
            continue
        digits += group.group()
        if is_international(digits) and not (decimal and len(digits) < 11):
            end = number.start + group.end()
    return end


def _national(passage: Passage, number: Number, forms: list[tuple[re.Pattern[str], re.Pattern[str]]]) -> Iterator[Span]:
    opened = passage.text[number.start - 1 : number.start] == "(" and ")" in number.written
    start = number.start - opened
    written = "(" + number.written if opened else number.written
    sure = any(form.fullmatch(written) and plan.fullmatch(number.digits) for form, plan in forms) and not _counts_up(
        written
    )
    if not sure:
        foreign = number.digits.startswith("00") and is_international(number.digits[2:])
        if not foreign and not NATIONAL.fullmatch(number.digits):
            return
        if _DATES.fullmatch(written) or not _WORD.search(passage.before(start)):
            return
    if passage.stands_alone(start, number.end) and not passage.is_other_number(start):
        yield Span(start, number.end, "phone")


def _counts_up(written: str) -> bool:
    """Return whether the groups count up, as in `01 02 03 04 05`. They are weeks or pages, not a telephone number."""
    values = [int(group) for group in _DIGITS.findall(written)]
    return len(values) > 2 and all(after == before + 1 for before, after in itertools.pairwise(values))
