"""Test the redaction of e-mail and IP addresses, and that redaction takes linear time."""

import itertools

import pytest
from stopwatch import time_is_linear

from data_prep.corpus.pii import find_spans, redact

KINDS = ["email", "ip"]

REDACTED = {
    "write to ana.lopez+news@mail.example.org.": "write to <EMAIL>.",
    "(José: josé_p@correo.example)": "(José: <EMAIL>)",
    "邮箱foo@bar.com和": "邮箱<EMAIL>和",
    "<a href='mailto:x@y.co.uk'>": "<a href='mailto:<EMAIL>'>",
    "a@b.org,c@d.org;e@f.org": "<EMAIL>,<EMAIL>;<EMAIL>",
    "...team@site.example!": "...<EMAIL>!",
    "ping 203.0.113.7, or 8.8.8.8:53.": "ping <IP>, or <IP>:53.",
    "地址198.51.100.4。": "地址<IP>。",
    "the v6 is 2001:db8::8a2e:370:7334, or [2a00:1450:4001:81b::200e]": "the v6 is <IP>, or [<IP>]",
    "user@203.0.113.9": "user@<IP>",
}

LEFT = [
    "10.0.0.1 192.168.1.1 127.0.0.1 169.254.0.1 224.0.0.1 0.0.0.0 255.255.255.255 fe80::1 ::1 fc00::1",
    "version 4.2.1.0 and v4.2.1.0 and 1.2.3.4.5 and Firmware: 8.8.4.4 and release 8.8.8.8",
    "256.1.1.1 1.2.3 1.2.3.4567 section 8.8.8.8a 08.8.8.8",
    "at 12:30:45 on 2024:01:02, MAC 00:1a:2b:3c:4d:5e, std::vector, a::b, 2001:, dead::beef",
    "@dataclass def f(x) -> y @ z; a@b; user@localhost; @name; x@.com; x@y..com; a..b@c.org",
    "logo@2x.png git@github.com:owner/name.git",
]


@pytest.mark.parametrize(("text", "expected"), REDACTED.items())
def test_addresses_become_placeholders(text: str, expected: str) -> None:
    assert redact(text, KINDS)[0] == expected


@pytest.mark.parametrize("text", LEFT)
def test_text_that_only_looks_like_an_address_stays(text: str) -> None:
    assert redact(text, KINDS) == (text, {})


def test_redaction_replaces_spans_and_not_equal_strings_elsewhere() -> None:
    """ROOTS replaced a match wherever its string occurred, so it also replaced parts of other words."""
    text, counts = redact("a@corp.org is at corp.org and aa@corp.org, a@corp.organic", KINDS)
    assert text == "<EMAIL> is at corp.org and <EMAIL>, <EMAIL>"
    assert counts == {"email": 3}


def test_only_the_requested_kinds_are_replaced() -> None:
    text = "a@b.org 8.8.8.8"
    assert redact(text, ["ip"])[0] == "a@b.org <IP>"
    assert redact(text, [])[0] == text


def test_redacting_twice_gives_the_same_text_as_redacting_once() -> None:
    for text in REDACTED:
        once = redact(text, KINDS)[0]
        assert redact(once, KINDS) == (once, {})


def test_spans_are_in_order_and_do_not_overlap() -> None:
    text = "x 8.8.8.8@9.9.9.9.example.com 203.0.113.1@a.org " * 3
    spans = find_spans(text, KINDS)
    assert all(one.end <= two.start for one, two in itertools.pairwise(spans))


@pytest.mark.parametrize(
    "unit", ["a", "@", "a@", "a.", "1.", "1.1.1.1", ":", "a:", "2001:", "a@b.", "a-", "8.8.8.8 ", "a@b.cc "]
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    assert time_is_linear(lambda size: redact(unit * (size // len(unit)), KINDS), 20_000)
