"""The kinds of personal data with their finders and placeholders, and the function that redacts a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from data_prep.corpus.pii.addresses import find_addresses
from data_prep.corpus.pii.banking import find_cards, find_ibans
from data_prep.corpus.pii.emails import find_emails
from data_prep.corpus.pii.handles import find_handles
from data_prep.corpus.pii.identifiers import find_identifiers
from data_prep.corpus.pii.passage import Passage
from data_prep.corpus.pii.phones import find_phones
from data_prep.corpus.pii.secret_keys import find_keys
from data_prep.corpus.pii.spans import Span, replace, resolve

FINDERS: dict[str, Callable[[Passage], Iterable[Span]]] = {
    "email": find_emails,
    "ip": find_addresses,
    "phone": find_phones,
    "iban": find_ibans,
    "card": find_cards,
    "key": find_keys,
    "national_id": find_identifiers,
    "handle": find_handles,
}
PLACEHOLDERS = {
    "email": "<EMAIL>",
    "ip": "<IP>",
    "phone": "<PHONE>",
    "iban": "<IBAN>",
    "card": "<CARD>",
    "key": "<KEY>",
    "national_id": "<ID>",
    "handle": "<HANDLE>",
}
_ROUNDS = 4
_NEAR_START = re.compile(r"[\d@]|[A-Za-z_\-]\Z")
_NEAR_END = re.compile(r".{0,23}[\d@]|[A-Za-z_\-]", re.DOTALL)
_NEAR_CHARACTERS = 8


def find_spans(text: str, kinds: Iterable[str], language: str = "") -> list[Span]:
    """Return the spans of personal data in the order of the text, without overlaps.

    Of two overlapping spans, the longer one is chosen; if they are equally long, the earlier one. Some spans are only
    recognised after a span beside them is removed, such as a telephone number after an account number. So found spans
    are blanked, and the text is searched again if there are digits, letters or `@` near one of them.
    """
    kinds = list(kinds)
    chosen: list[Span] = []
    passage = Passage(text, language)
    for _ in range(_ROUNDS):
        found = resolve(span for kind in kinds for span in FINDERS[kind](passage))
        if not found:
            break
        chosen += found
        if not any(map(partial(_is_near, passage.text), found)):
            break
        # Finders treat a blanked span like a placeholder.
        passage = Passage(replace(passage.text, found, _blank), language)
    return sorted(chosen)


def _is_near(text: str, span: Span) -> bool:
    """Return whether the text near a span may be another span or a part of one."""
    before = text[max(0, span.start - _NEAR_CHARACTERS) : span.start]
    return bool(_NEAR_START.search(before) or _NEAR_END.match(text, span.end))


def _blank(span: Span) -> str:
    return "<" * (span.end - span.start - 1) + ">"


def redact(text: str, kinds: Iterable[str], language: str = "") -> tuple[str, Counter[str]]:
    """Return the text with placeholders, and the number of placeholders of each kind.

    `language` is a language code, or empty if the language is unknown.
    """
    spans = find_spans(text, kinds, language)
    if not spans:
        return text, Counter()
    return replace(text, spans, lambda span: PLACEHOLDERS[span.kind]), Counter(span.kind for span in spans)
