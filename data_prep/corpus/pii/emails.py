"""Find e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from data_prep.corpus.pii.passage import Passage
from data_prep.corpus.pii.spans import Span

# Addresses may have Latin letters with accents. Letters of other scripts are not part of an address, because these
# scripts may write no space beside it.
_WORD = "A-Za-z0-9À-ÖØ-öø-ɏ"
_LOCAL_CHARACTERS = 64  # RFC 5321, section 4.5.3.1.1
_LOCAL_BACKWARDS = re.compile(rf"[{_WORD}._%+\-]+")
_DOMAIN = re.compile(rf"(?:[{_WORD}](?:[{_WORD}\-]{{0,61}}[{_WORD}])?\.){{1,8}}[A-Za-z]{{2,24}}(?![{_WORD}_\-])")
_FILE_SUFFIXES = frozenset(["png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "css", "js", "html", "htm"])
"""Endings of file names such as `logo@2x.png`, which are not addresses."""


def find_emails(passage: Passage) -> Iterator[Span]:
    """Yield e-mail addresses. File names and `git@host:`, which names a server, are skipped."""
    text = passage.text
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
