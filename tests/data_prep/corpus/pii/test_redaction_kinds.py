"""Test the redaction of telephone, account, card and identity numbers, keys and handles.

The account, card and identity numbers are examples that their issuers publish (ISO 13616's registry, test cards of
networks, governments' pages on check digits). The telephone numbers are invented.
"""

import functools
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stopwatch import time_is_linear

from bloomery.config.corpus import PiiConfig
from data_prep.corpus.pii import FINDERS, PLACEHOLDERS, find_spans, redact
from data_prep.corpus.pii.passage import Passage

pytestmark = pytest.mark.slow

KINDS = list(PLACEHOLDERS)

REDACTED = [
    ("", "ring +44 20 7946 0958, +33 (0)6 12 34 56 78 or +14155552671.", "ring <PHONE>, <PHONE> or <PHONE>."),
    ("", "+225 07 08 09 10 11 und +49 (30) 901820", "<PHONE> und <PHONE>"),
    ("", "Tel.: 0044 20 7946 0958", "Tel.: <PHONE>"),
    ("", "tel:+33612345678", "tel:<PHONE>"),
    ("en", "(212) 555-0187 or 212-555-0187", "<PHONE> or <PHONE>"),
    ("fr", "Appelez le 06 12 34 56 78.", "Appelez le <PHONE>."),
    ("fr", "01.23.45.67.89 - 06 12 34 56 79", "<PHONE> - <PHONE>"),
    ("es", "móvil: 612 345 678", "móvil: <PHONE>"),
    ("pt", "ligar (11) 98765-4321", "ligar <PHONE>"),
    ("hi", "फ़ोन: ९८७६५ ४३२१०", "फ़ोन: <PHONE>"),
    ("bn", "০১৭১২৩৪৫৬৭৮", "<PHONE>"),
    ("ar", "هاتف ٠١٠١٢٣٤٥٦٧٨", "هاتف <PHONE>"),
    ("ur", "0300-1234567", "<PHONE>"),
    ("zhs", "手机13812345678，电话010-12345678", "手机<PHONE>，电话<PHONE>"),
    ("zht", "0912-345-678", "<PHONE>"),
    ("vi", "ĐT: 0912 345 678", "ĐT: <PHONE>"),
    ("id", "0812-3456-7890", "<PHONE>"),
    ("sw", "simu 0712345678", "simu <PHONE>"),
    ("yo", "0803 123 4567", "<PHONE>"),
    ("zu", "082 123 4567", "<PHONE>"),
    ("", "DE89 3704 0044 0532 0130 00 BIC", "<IBAN> BIC"),
    ("", "GB82WEST12345698765432,FR1420041010050500013M02606", "<IBAN>,<IBAN>"),
    ("", "PK36SCBL0000001123456702账", "<IBAN>账"),
    ("", "4111 1111 1111 1111 12/25; 378282246310005; 5555-5555-5555-4444", "<CARD> 12/25; <CARD>; <CARD>"),
    ("", "6200000000000005 3530111333300000.", "6200000000000005 3530111333300000."),  # one number or two: unknown
    ("es", "DNI 12345678Z y X1234567L", "DNI <ID> y <ID>"),
    ("", "CPF 529.982.247-25", "CPF <ID>"),
    ("fr", "n° 2 55 08 14 168 025 38", "n° <ID>"),
    ("zhs", "身份证11010519491231002X", "身份证<ID>"),
    ("zht", "A123456789", "<ID>"),
    ("", "Aadhaar: 2341 2341 2346", "Aadhaar: <ID>"),
    ("zu", "8001015009087", "<ID>"),
    ("", "NHS number 943 476 5919", "NHS number <ID>"),
    ("", "NIF: 123456789", "NIF: <ID>"),
    ("es", "CUIL 20-12345678-6, RUT 12.345.678-5", "CUIL <ID>, RUT <ID>"),
    ("", "id AKIAIOSFODNN7EXAMPLE", "id <KEY>"),
    ("", "ghp_" + "a1B2" * 9, "<KEY>"),
    ("", "hf_" + "abcdefghij" * 4, "<KEY>"),
    ("", "xoxb-" + "1234567890-abc", "<KEY>"),
    ("", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N", "<KEY>"),
    ("code", 'api_key = "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"', 'api_key = "<KEY>"'),
    ("code", "DB_PASSWORD=x9Kq2LmP7vRt4WzY8bNc\n", "DB_PASSWORD=<KEY>\n"),
    ("code", '"client_secret": "x9Kq2LmP7vRt4WzY8bNc"', '"client_secret": "<KEY>"'),
    (
        "",
        f"a\n-----BEGIN RSA PRIVATE KEY-----\n{'MIIE' * 16}\n-----END RSA PRIVATE KEY-----\nb",
        "a\n<KEY>\nb",
    ),
    ("", f"-----BEGIN PRIVATE KEY-----\n{'MIIE' * 16}\n{'abcd' * 16}\n", "<KEY>\n"),
    ("en", "thanks @alice_b, @bob@social.example!", "thanks <HANDLE>, <HANDLE>!"),
    ("code", "# Twitter: @alice_b", "# Twitter: <HANDLE>"),
]

LEFT = [
    # Not telephone numbers: quantities, dates, decimals, version numbers, ISBNs, order numbers, and national forms of
    # telephone numbers in a text of another language.
    ("", "06 12 34 56 78 and 0612345678 and 612 345 678"),
    ("fr", "ISBN 06 12 34 56 78; les semaines 01 02 03 04 05; +922 337 203 685 477,5808; 12 345 678 901 €"),
    ("en", "+1000000000 +12345 +1.2345678 +999 12345678 phone 2010-2019, phone 2020-01-31, call 20200131"),
    ("en", "ISBN 978-0-306-40615-7, ISBN 0-306-40615-2, version 1.2.3.4567890, x=0612345678&y, /0612345678/"),
    ("en", "order no. 212-555-0187, 0.2125550187, 12:0612345678, a0612345678, 212-555-01875"),
    ("zhs", "2024-01-02 10:11:12 1612345678901 13812345678"),
    # Not accounts, cards or identity numbers: the check digit, the length or the context is wrong.
    ("", "DE88 3704 0044 0532 0130 00, DE89 3704 0044 0532 0130, XX89370400440532013000, ADE89370400440532013000"),
    ("", "4111 1111 1111 1112; 4111-1111 1111-1111; 14111111111111111; 411111111111111; 0.4111111111111111"),
    ("", "9111111111111111 ISBN 4111111111111111 order: 4111111111111111"),
    ("es", "DNI 12345678A, X1234567A, 12345678, CUIL 20-12345678-5, 12.345.678-6"),
    ("pt", "529.982.247-26, 111.111.111-11, 52998224725"),
    ("fr", "2 55 08 14 168 025 39; 2 13 08 14 168 025 38"),
    ("zhs", "110105194912310021 11010519491331002X"),
    ("hi", "2341 2341 2346"),
    ("en", "943 476 5919 and NHS number 943 476 5918; 8001015009087"),
    # Not keys: names, placeholders, prose.
    ("code", 'api_key = "your_api_key_goes_here" token = "xxxxxxxxxxxxxxxxxxxxxxxx"'),
    ("code", 'password = get_password_from_vault("production") secret = "/usr/share/lib/v1.2.3/secret.pem"'),
    ("code", 'digest = "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c" token = "12345678901234567890"'),
    ("", "-----BEGIN PRIVATE KEY----- is how it begins; -----END PRIVATE KEY----- is how it ends"[:60]),
    ("", "-----BEGIN PUBLIC KEY-----\n" + "MIIE" * 16 + "\n-----END PUBLIC KEY-----"),
    ("", "sk-learn task-force hf_model ghp_short eyJ.eyJ.x AKIA AIzaShort a-AKIAIOSFODNN7EXAMPLE"),
    # Not handles: annotations, decorators, scopes, CSS.
    ("en", "@Override @media (x) @scope/pkg @property @ 3 pm, a@b, user@localhost, @decorator(1), @2"),
    ("code", "@wraps\ndef f(): my @list = @alice"),
]


@pytest.mark.parametrize(("language", "text", "expected"), REDACTED)
def test_personal_data_becomes_placeholders(language: str, text: str, expected: str) -> None:
    assert redact(text, KINDS, language)[0] == expected


@pytest.mark.parametrize(("language", "text"), LEFT)
def test_text_that_only_looks_like_personal_data_stays(language: str, text: str) -> None:
    assert redact(text, KINDS, language) == (text, {})


def test_a_national_form_needs_the_language_of_the_country_or_a_word_before_it() -> None:
    assert redact("06 12 34 56 78", ["phone"], "fr")[0] == "<PHONE>"
    assert redact("06 12 34 56 78", ["phone"], "ar")[0] == "<PHONE>"  # Morocco
    assert redact("06 12 34 56 78", ["phone"], "vi")[0] == "06 12 34 56 78"
    assert redact("fax 06 12 34 56 78", ["phone"], "vi")[0] == "fax <PHONE>"
    assert redact("hotels 06 12 34 56 78", ["phone"], "vi")[1] == {}


def test_the_longer_of_two_overlapping_spans_is_redacted() -> None:
    assert redact("0612345678@mail.example.org", KINDS, "fr")[0] == "<EMAIL>"
    assert redact("write @a.b@c.org", KINDS, "en")[0] == "write <HANDLE>"
    # The telephone number is recognised only after the account number is replaced.
    assert redact("DE89370400440532013000 06 12 34 56 78", KINDS, "fr")[0] == "<IBAN> <PHONE>"


def test_the_default_kinds_are_all_kinds_except_handles() -> None:
    assert set(PiiConfig().kinds) == set(KINDS) - {"handle"}
    assert set(PiiConfig(kinds=KINDS).kinds) == set(FINDERS) == set(PLACEHOLDERS)
    assert len(set(PLACEHOLDERS.values())) == len(PLACEHOLDERS)


PIECES = [text for _, text, _ in REDACTED] + [text for _, text in LEFT]
PIECES += [" ", "-", ".", "\n", "+", "@", "(", "tel ", "1", "0612345678", "8.8.8.8", "a@b.org", "2019"]
LANGUAGES = ["", "en", "fr", "es", "pt", "hi", "zhs", "ar", "code"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=6).map("".join),
    st.sampled_from(LANGUAGES),
)
def test_spans_do_not_overlap_and_other_text_stays_and_a_second_pass_finds_nothing(text: str, language: str) -> None:
    spans = find_spans(text, KINDS, language)
    assert all(one.end <= two.start for one, two in itertools.pairwise(spans))
    once, counts = redact(text, KINDS, language)
    assert sum(counts.values()) == len(spans)
    kept = [
        text[a:b] for a, b in zip([0, *(s.end for s in spans)], [*(s.start for s in spans), len(text)], strict=True)
    ]
    pieces = [piece for span, piece in zip(spans, kept, strict=False) for piece in (piece, PLACEHOLDERS[span.kind])]
    assert once == "".join([*pieces, kept[-1]])
    assert redact(once, KINDS, language) == (once, {})


UNITS = [
    "1",
    "1 ",
    "+1",
    "(1)",
    "1-",
    "01 ",
    "+33612345678 ",
    "4111 1111 1111 1111 ",
    "DE89",
    "DE89 3704",
    "A1",
    "x=",
    "=",
    '="',
    'token="',
    "key=aB3",
    "eyJ",
    "eyJ.",
    "eyJaaaaaaaaaaaa.",
    "sk-",
    "_",
    "ghp_",
    "xox",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n",
    "@",
    "@a",
    "@a.",
    "tel ",
    "tel 1234567",
    "12345678Z ",
    "9876543210 ",
    "a@b.org 0612345678 ",
    "+33612345678 0612345678 DE89370400440532013000 ",
    "٠",
    "2001:db8::1 ",
]


@pytest.mark.parametrize("unit", UNITS)
def test_every_finder_takes_linear_time(unit: str) -> None:
    for name, finder in FINDERS.items():
        find = functools.partial(lambda finder, size: list(finder(Passage(unit * (size // len(unit)), "fr"))), finder)
        assert time_is_linear(find, 25_000), name


def test_placeholders_are_capital_letters_in_angle_brackets() -> None:
    assert all(re.fullmatch("<[A-Z]+>", placeholder) for placeholder in PLACEHOLDERS.values())
