"""Find public IP addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from data_prep.corpus.pii.passage import Passage
from data_prep.corpus.pii.spans import Span

# Each pattern begins with a character that is rare in prose and fast to search for (a digit, or `:`), and then looks
# back.
_IPV4 = re.compile(r"[0-9](?<![A-Za-z0-9_.][0-9])[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?![A-Za-z0-9_]|\.[0-9])")
_IPV6 = re.compile(
    r":(?<=(?<![A-Za-z0-9_:.])[0-9A-Fa-f]{4}:)[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){1,6}(?:(?<=:)[0-9]{1,3}(?:\.[0-9]{1,3}){3})?(?![A-Za-z0-9_:])"
)
_VERSION_BEFORE = re.compile(r"(?:version|versión|versão|versi|release|firmware|build|ver\.?|v\.)\s*[:=]?\s*\Z", re.I)
_VERSION_LOOK_BACK = 16
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_DOCUMENTATION = [
    ipaddress.ip_network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]
"""Blocks of RFC 5737 and RFC 3849. Examples use them in place of public addresses, so they are treated as public."""


def find_addresses(passage: Passage) -> Iterator[Span]:
    """Yield public IPv4 and IPv6 addresses.

    Private, loopback and multicast addresses are skipped, and so are version numbers.
    """
    text = passage.text
    for match in _IPV4.finditer(text):
        before = text[max(0, match.start() - _VERSION_LOOK_BACK) : match.start()]
        if _is_public(match.group()) and not _VERSION_BEFORE.search(before):
            yield Span(*match.span(), "ip")
    for match in _IPV6.finditer(text):
        start = match.start() - 4
        if _is_public(text[start : match.end()]):
            yield Span(start, match.end(), "ip")


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
