"""Personal data: spans over the original text, each one validated, replaced once by fixed placeholders.

Spans are found first and replaced in one pass, so that replacing one can neither create nor hide another, and the
result does not depend on where a shard begins. Every pattern is linear: it starts at a character that the text must
hold (`@`, `.`, `:`) and looks a bounded distance from there.
"""

from __future__ import annotations

import bisect
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """Characters `start` to `end` of a text and what they are."""

    start: int
    end: int
    kind: str


PLACEHOLDERS = {"email": "<EMAIL>", "ip": "<IP>"}

# Latin letters with accents occur in addresses; other scripts do not write a space before one, so they end it.
_WORD = "A-Za-z0-9À-ÖØ-öø-ɏ"
_LOCAL_CHARACTERS = 64  # RFC 5321, section 4.5.3.1.1
_LOCAL_BACKWARDS = re.compile(rf"[{_WORD}._%+\-]+")
_DOMAIN = re.compile(rf"(?:[{_WORD}](?:[{_WORD}\-]{{0,61}}[{_WORD}])?\.){{1,8}}[A-Za-z]{{2,24}}(?![{_WORD}_\-])")
_FILE_SUFFIXES = frozenset(["png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "css", "js", "html", "htm"])
"""Endings of file names such as `logo@2x.png`."""


def find_emails(text: str) -> Iterator[Span]:
    """E-mail addresses. Not `git@host:` (a remote, not a person), nor file names."""
    at = text.find("@")
    while at >= 0:
        before = _LOCAL_BACKWARDS.match(text[max(0, at - _LOCAL_CHARACTERS - 1) : at][::-1])
        domain = _DOMAIN.match(text, at + 1)
        if before and domain:
            local = before.group()[::-1].lstrip(".-%+_")
            suffix = domain.group().rsplit(".", 1)[1].lower()
            fits = 0 < len(local) <= _LOCAL_CHARACTERS and ".." not in local and not local.endswith(".")
            if fits and local != "git" and suffix not in _FILE_SUFFIXES:
                yield Span(at - len(local), domain.end(), "email")
        at = text.find("@", at + 1)


_IPV4 = re.compile(r"(?<![A-Za-z0-9_.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![A-Za-z0-9_]|\.[0-9])")
_IPV6 = re.compile(
    r"(?<![A-Za-z0-9_:.])[0-9A-Fa-f]{4}(?=:)(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?<=:)[0-9]{1,3}(?:\.[0-9]{1,3}){3})?(?![A-Za-z0-9_:])"
)
_VERSION_BEFORE = re.compile(r"(?:version|versión|versão|versi|release|firmware|build|ver\.?|v\.)\s*[:=]?\s*\Z", re.I)
_VERSION_LOOK_BACK = 16
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_DOCUMENTATION = [
    ipaddress.ip_network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]
"""Blocks of RFC 5737 and RFC 3849: they stand for public addresses in examples, so they are treated as such."""


def find_addresses(text: str) -> Iterator[Span]:
    """Public IPv4 and IPv6 addresses: not private, loopback or multicast ones, and not version numbers."""
    if "." in text:
        for match in _IPV4.finditer(text):
            before = text[max(0, match.start() - _VERSION_LOOK_BACK) : match.start()]
            if _is_public(match.group()) and not _VERSION_BEFORE.search(before):
                yield Span(*match.span(), "ip")
    if ":" in text:
        for match in _IPV6.finditer(text):
            if _is_public(match.group()):
                yield Span(*match.span(), "ip")


def _is_public(candidate: str) -> bool:
    try:
        address = ipaddress.ip_address(candidate)
    except ValueError:
        return False
    if any(address in block for block in _DOCUMENTATION):
        return True
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return False
    return address.is_global and not address.is_multicast


FINDERS: dict[str, Callable[[str], Iterable[Span]]] = {"email": find_emails, "ip": find_addresses}


def find_spans(text: str, kinds: Iterable[str]) -> list[Span]:
    """Spans in the text's order without overlaps: of two that overlap the longer stays, else the earlier."""
    found = [span for kind in kinds for span in FINDERS[kind](text)]
    found.sort(key=lambda span: (span.start - span.end, span.start, span.kind))
    chosen: list[Span] = []
    for span in found:
        place = bisect.bisect(chosen, span)
        after_last = place == 0 or chosen[place - 1].end <= span.start
        if after_last and (place == len(chosen) or span.end <= chosen[place].start):
            chosen.insert(place, span)
    return chosen


def redact(text: str, kinds: Iterable[str]) -> tuple[str, Counter[str]]:
    """The text with placeholders, and how many of each kind were put."""
    spans = find_spans(text, kinds)
    if not spans:
        return text, Counter()
    pieces, position = [], 0
    for span in spans:
        pieces += [text[position : span.start], PLACEHOLDERS[span.kind]]
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces), Counter(span.kind for span in spans)
