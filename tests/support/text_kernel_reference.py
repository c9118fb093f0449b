"""Compute the text kernel's measures in plain Python with ``unicodedata``, one document at a time."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from kernel_words import covered, is_word, normal, words_of
from numpy.typing import NDArray

CP1252 = {bytes([b]).decode("cp1252") for b in range(0x80, 0xA0) if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}
CONTINUED = CP1252 | {chr(c) for c in range(0x80, 0xC0)}

STOP = ["Don't", "was", "it's", "a", "na", "में", "यह", "है", "好", "İstanbul", "là", "ἐν", "l’été"]
FLAGGED = ["na na batman", "na", "three four", "天气", "b", "今天天"]


def batch(texts: Sequence[str | bytes]) -> tuple[bytes, NDArray[np.int64]]:
    """Return the texts as one buffer and n + 1 offsets."""
    blobs = [text.encode() if isinstance(text, str) else text for text in texts]
    return b"".join(blobs), np.cumsum([0, *map(len, blobs)], dtype=np.int64)


def ngrams(items: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(items[i : i + length]) for i in range(len(items) - length + 1))


def divide(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of a text: runs of lines that are not blank, with each line stripped."""
    blocks: list[list[str]] = [[]]
    for line in map(str.strip, text.split("\n")):
        if line:
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return ["\n".join(block) for block in blocks if block]


def top_ngram(words: Sequence[str], lower: Sequence[str], length: int) -> int:
    """Return the number of characters, with spaces, in all copies of the most frequent n-gram, as Gopher counts them.

    If several n-grams are most frequent, the first one counts.
    """
    if not (counts := ngrams(lower, length)):
        return 0
    most = max(counts.values())
    first = next(i for i in range(len(words)) if counts[tuple(lower[i : i + length])] == most)
    return len(" ".join(words[first : first + length])) * most


def repeated_ngrams(words: Sequence[str], lower: Sequence[str], length: int) -> int:
    """Return the number of characters in repeated n-grams, as Gopher counts them: repeated n-grams do not overlap."""
    seen, found, at = set(), 0, 0
    while at + length <= len(words):
        gram = tuple(lower[at : at + length])
        if gram in seen:
            found += sum(map(len, words[at : at + length]))
            at += length
        else:
            seen.add(gram)
            at += 1
    return found


def reference(text: str, unspaced: bool) -> dict[str, float]:
    """Return the expected result of ``measure`` for one document, without the scripts."""
    words = words_of(text, unspaced)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    characters = len(text)
    grams = sorted(ngrams(text, 10).values(), reverse=True)
    top = min(math.isqrt(len(grams)), sum(count > 1 for count in grams))
    word_grams = ngrams([normal(word) for word in words], 5)
    special = [
        c
        for c in text
        if unicodedata.category(c)[0] in "PSNCZ" and c not in (" ", "\t", "\n", "\r", "\u200c", "\u200d")
    ]

    def ended(line: str) -> bool:
        while line and (line[-1] in "\"'" or unicodedata.category(line[-1]) in ("Pe", "Pi", "Pf")):
            line = line[:-1]
        return line.endswith(tuple(".!?…。！？．｡؟۔।॥‼‽⁇⁈⁉།"))

    repeated = sum(len(line) * (count - 1) for line, count in Counter(lines).items())
    blocks = paragraphs_of(text)
    copies = {block: count - 1 for block, count in Counter(blocks).items()}
    lower = [normal(word) for word in words]
    raw = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    indents = [len(line) - len(line.lstrip()) for line in raw if line.strip()]
    broken = text.count("\ufffd") + sum(a in "ÂÃâ" and b in CONTINUED for a, b in pairwise(text))
    return {
        "characters": characters,
        "bytes": len(text.encode()),
        "words": len(words),
        "mean_word_length": divide(sum(map(len, words)), len(words)),
        "lines": len(lines),
        "character_repetition_ratio": divide(sum(grams[:top]), sum(grams)),
        "word_repetition_ratio": divide(sum(n for n in word_grams.values() if n > 1), sum(word_grams.values())),
        "special_ratio": divide(len(special), characters),
        "digit_ratio": divide(sum(unicodedata.category(c) == "Nd" for c in text), characters),
        "alphabetic_word_ratio": divide(
            sum(any(unicodedata.category(c)[0] == "L" for c in word) for word in words), len(words)
        ),
        "short_line_ratio": divide(sum(len(line) <= 30 for line in lines), len(lines)),
        "duplicate_line_ratio": divide(repeated, characters - text.count("\n")),
        "terminal_punctuation_ratio": divide(sum(map(ended, lines)), len(lines)),
        "newline_ratio": text.count("\n") / max(len(words), 1),
        "bullet_ratio": divide(sum(line[0] in "-*·•‣⁃■□▪▫▶►○●◦・" for line in lines), len(lines)),
        "replacement_ratio": divide(broken, characters),
        "paragraphs": len(blocks),
        "duplicate_line_fraction": divide(len(lines) - len(set(lines)), len(lines)),
        "duplicate_paragraph_fraction": divide(len(blocks) - len(copies), len(blocks)),
        "duplicate_paragraph_ratio": divide(sum(len(block) * n for block, n in copies.items()), characters),
        **{f"top_{n}gram_ratio": divide(top_ngram(words, lower, n), characters) for n in (2, 3, 4)},
        **{f"duplicate_{n}gram_ratio": divide(repeated_ngrams(words, lower, n), characters) for n in range(5, 11)},
        "hash_ratio": divide(text.count("#"), len(words)),
        "ellipsis_ratio": divide(text.count("...") + text.count("…"), len(words)),
        "ellipsis_line_ratio": divide(sum(line.endswith(("...", "…")) for line in lines), len(lines)),
        "few_word_line_ratio": divide(sum(len(words_of(line, unspaced)) < 3 for line in lines), len(lines)),
        "curly_brackets": text.count("{") + text.count("}"),
        "longest_line": max(map(len, raw), default=0),
        "mean_line_length": divide(sum(map(len, raw)), len(raw)),
        "indentation_ratio": divide(sum(indents), characters),
        "alphanumeric_ratio": divide(sum(map(is_word, text)), characters),
        "stop_word_ratio": divide(covered(words, STOP, unspaced), len(words)),
        "flagged_word_ratio": divide(covered(words, FLAGGED, unspaced), len(words)),
    }
