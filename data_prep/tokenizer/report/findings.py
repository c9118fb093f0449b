"""Compute facts about a vocabulary: tokens that are never used, tokens that look like mistakes, lengths, and scripts.

Reasons why a token is never used:

- `byte`: the token is one byte. Thirteen bytes never occur in UTF-8 (C0, C1, F5 to FF). Other bytes belong to scripts
  that the text does not contain.
- `inside`: training created the token as a part of a longer token, and texts use only the longer token.
- `absent`: the token occurs in the text neither alone nor inside a longer token.

Signs that a token is a mistake ("glitch"):

- `unreachable`: the token's own text is encoded as other tokens. Hardly any text produces the token.
- `url`: the token contains a part of a web address.
- `run`: the token repeats one character (other than white space) eight or more times.
- `long`: the token has `LONG` or more characters, without the white space around them.
- `rare`: the token is used, but fewer than `RARE` times, so a model hardly learns it.
- `family`: the token is one of `FAMILY` or more long tokens with the same beginning (digits count as equal). Such
  families often come from templates that deduplication did not remove.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer, Usage
from data_prep.tokenizer.report.unicode_script import BYTES, FRAGMENTS, script_of

LISTED = 100
"""Maximum number of tokens in a list. The total number of tokens beside a list also counts the tokens that are not
listed."""
LONG, RARE, FAMILY = 24, 10, 5
_FAMILY_CHARACTERS, _FAMILY_PREFIX = 12, 10
_URL = re.compile(r"://|www\.|\.(?:com|org|net|html?|php)\b", re.IGNORECASE)
_RUN = re.compile(r"(\S)\1{7,}")
_RANKS = 160
Flags = npt.NDArray[np.bool_]


def findings(subject: ReportedTokenizer, usage: Usage, spread: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return facts about a tokenizer's vocabulary, as JSON values.

    Args:
        subject: the tokenizer.
        usage: number of uses of each token over all languages.
        spread: number of languages that use each token.
    """
    texts = [_text(token) for token in subject.tokens]
    ordinary = ~subject.special
    lists = _Lists(subject, texts, usage)
    used = usage > 0
    return {
        "tokens": int(ordinary.sum()),
        "special": int(subject.special.sum()),
        "never_used": _never_used(subject, ordinary & ~used, used, lists),
        "used_in_one_language": int((ordinary & (spread == 1)).sum()),
        "fragments": int((ordinary & ~subject.single & _where(texts, lambda text: text is None)).sum()),
        "variants": _variants(texts, ordinary),
        "glitches": _glitches(subject, texts, ordinary, usage, lists),
        "families": _families(texts, ordinary, lists),
        "longest": lists.of(sorted(np.flatnonzero(ordinary).tolist(), key=lambda one: (-len(texts[one] or ""), one))),
        "lengths": _lengths(texts, ordinary),
        "scripts": _scripts(subject, texts, ordinary, used),
        "ranks": _ranks(usage[ordinary]),
    }


class _Lists:
    """Make the report's lists of tokens."""

    def __init__(self, subject: ReportedTokenizer, texts: list[str | None], usage: Usage) -> None:
        self._tokens, self._texts, self._usage = subject.tokens, texts, usage

    def one(self, number: int) -> dict[str, Any]:
        """Return a token's id, text and number of uses.

        If the token is not UTF-8, `text` is None and `bytes` holds the token's bytes in hexadecimal.
        """
        found = {"id": number, "text": self._texts[number], "used": int(self._usage[number])}
        return found if found["text"] is not None else found | {"bytes": self._tokens[number].hex(" ").upper()}

    def of(self, numbers: Iterable[int]) -> list[dict[str, Any]]:
        """Return the first `LISTED` tokens of `numbers`."""
        return [self.one(number) for number, _ in zip(numbers, range(LISTED), strict=False)]


def _text(token: bytes) -> str | None:
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _where(texts: list[str | None], test: Any) -> Flags:
    return np.fromiter(map(test, texts), np.bool_, len(texts))


def _never_used(subject: ReportedTokenizer, never: Flags, used: Flags, lists: _Lists) -> dict[str, Any]:
    inside = _inside(subject, used)
    kinds = {
        "byte": never & subject.single,
        "inside": never & ~subject.single & inside,
        "absent": never & ~subject.single & ~inside,
    }
    total = int((~subject.special).sum())
    return {
        "tokens": int(never.sum()),
        "share": round(int(never.sum()) / total, 6) if total else 0.0,
        "kinds": {kind: int(flags.sum()) for kind, flags in kinds.items()},
        "listed": {kind: lists.of(np.flatnonzero(flags).tolist()) for kind, flags in kinds.items()},
    }


def _inside(subject: ReportedTokenizer, used: Flags) -> Flags:
    """Return a mask of the tokens that are, according to the merges, parts of a longer token that is used."""
    result = np.zeros(len(used), np.bool_)
    vocabulary = subject.tokenizer.get_vocab(with_added_tokens=False)
    for merge in reversed(subject.description["model"].get("merges", [])):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        whole = vocabulary.get(left + right)
        if whole is not None and (used[whole] or result[whole]):
            result[[vocabulary[left], vocabulary[right]]] = True
    return result


def _variants(texts: list[str | None], ordinary: Flags) -> int:
    """Count tokens that differ from another token only in case or surrounding white space.

    The first token of each group of such tokens is not counted.
    """
    forms = Counter(
        form for number, text in enumerate(texts) if ordinary[number] and text and (form := text.strip().casefold())
    )
    return sum(forms.values()) - len(forms)


def _glitches(
    subject: ReportedTokenizer, texts: list[str | None], ordinary: Flags, usage: Usage, lists: _Lists
) -> dict[str, dict[str, Any]]:
    # Only byte-level tokenizers are checked for unreachable tokens. In other tokenizers, the text of a token is
    # ambiguous, because the token may begin or continue a word.
    found = {"unreachable": _unreachable(subject, texts, ordinary)} if subject.byte_level else {}
    found |= {
        "url": ordinary & _where(texts, lambda text: bool(text and len(text) > 4 and _URL.search(text))),
        "run": ordinary & _where(texts, lambda text: bool(text and _RUN.search(text))),
        "long": ordinary & _where(texts, lambda text: bool(text and len(text.strip()) >= LONG)),
        "rare": ordinary & ~subject.single & (usage > 0) & (usage < RARE),
    }
    return {
        name: {
            "tokens": int(flags.sum()),
            "listed": lists.of(sorted(np.flatnonzero(flags).tolist(), key=lambda one: (int(usage[one]), one))),
        }
        for name, flags in found.items()
    }


def _unreachable(subject: ReportedTokenizer, texts: list[str | None], ordinary: Flags) -> Flags:
    result = np.zeros(len(texts), np.bool_)
    whole = [number for number, text in enumerate(texts) if ordinary[number] and text]
    group = 1 << 14
    for begin in range(0, len(whole), group):
        numbers = np.array(whole[begin : begin + group])
        tokens, lengths = subject.encoder.encode([texts[number] or "" for number in numbers])
        firsts = np.cumsum(lengths) - lengths
        result[numbers] = (lengths != 1) | (tokens[np.minimum(firsts, len(tokens) - 1)] != numbers)
    return result


def _families(texts: list[str | None], ordinary: Flags, lists: _Lists) -> list[dict[str, Any]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        if ordinary[number] and text and len(text.strip()) >= _FAMILY_CHARACTERS:
            found[re.sub(r"\d", "0", text.strip().casefold())[:_FAMILY_PREFIX]].append(number)
    families = [numbers for numbers in found.values() if len(numbers) >= FAMILY]
    families.sort(key=lambda numbers: (-len(numbers), numbers))
    return [
        {"tokens": len(numbers), "listed": [lists.one(number) for number in numbers[:FAMILY]]}
        for numbers in families[: LISTED // FAMILY]
    ]


def _lengths(texts: list[str | None], ordinary: Flags) -> list[int]:
    """Return the number of tokens with 0, 1, 2, ... characters. Tokens that are not UTF-8 count as 0 characters."""
    sizes = [len(text) if text else 0 for number, text in enumerate(texts) if ordinary[number]]
    return [int(number) for number in np.bincount(np.array(sizes, np.int64), minlength=1)]


def _scripts(
    subject: ReportedTokenizer, texts: list[str | None], ordinary: Flags, used: Flags
) -> dict[str, dict[str, int]]:
    tokens, with_use = Counter[str](), Counter[str]()
    for number, text in enumerate(texts):
        if ordinary[number]:
            name = BYTES if subject.single[number] else script_of(text) if text else FRAGMENTS
            tokens[name] += 1
            with_use[name] += bool(used[number])
    ordered = sorted(tokens, key=lambda name: (-tokens[name], name))
    return {name: {"tokens": tokens[name], "used": with_use[name]} for name in ordered}


def _ranks(usage: Usage) -> list[list[int]]:
    """Return pairs (rank, number of uses) of used tokens. The ranks are evenly spaced on a logarithmic scale."""
    ordered = np.sort(usage[usage > 0])[::-1]
    if not len(ordered):
        return []
    ranks = np.unique(np.rint(np.geomspace(1, len(ordered), _RANKS)).astype(np.int64))
    return [[int(rank), int(ordered[rank - 1])] for rank in ranks]
