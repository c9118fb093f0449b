"""Compute the figures of a language: words, bytes and characters of its sample, and the tokens that encode the sample.

- `tokens_per_word` (fertility): words are runs of letters, marks and digits. In languages without spaces, each letter
  or digit counts as a word.
- `bytes_per_token`, `characters_per_token`: compression.
- `single_byte_share`: share of the tokens that stand for one byte. It is high if the vocabulary has few characters of
  the language's script.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import regex

from bloomery.config.languages import profile_of
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer, Usage

REFERENCE = "en"
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_CHARACTER = regex.compile(r"[\p{L}\p{N}]")


def text_figures(language: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the figures of a language's texts that do not depend on a tokenizer."""
    unspaced = profile_of(language).unspaced
    words = _CHARACTER if unspaced else _WORD
    return {
        "name": profile_of(language).name if profile_of(language) is not profile_of("default") else language,
        "documents": len(texts),
        "bytes": sum(len(text.encode()) for text in texts),
        "characters": sum(map(len, texts)),
        "words": sum(sum(1 for _ in words.finditer(text)) for text in texts),
        "words_are": "characters" if unspaced else "words",
    }


def token_figures(subject: ReportedTokenizer, usage: Usage, text: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a tokenizer on a language's texts.

    Args:
        subject: the tokenizer.
        usage: number of uses of each token in the texts. At least one token must be used.
        text: `text_figures` of the texts.
    """
    tokens, single = int(usage.sum()), int(usage[subject.single].sum())
    return {
        "tokens": tokens,
        "single_byte_tokens": single,
        "tokens_per_word": round(tokens / text["words"], 4) if text["words"] else None,
        "bytes_per_token": round(text["bytes"] / tokens, 4),
        "characters_per_token": round(text["characters"] / tokens, 4),
        "single_byte_share": round(single / tokens, 4),
    }


def reference_language(languages: dict[str, dict[str, Any]]) -> str | None:
    """Return the reference language. The number of tokens of every other language, in the same content or per byte, is
    divided by that of this language (`parity`), so its own parity is 1.

    It is English, or the language with the most bytes of text if English is missing.

    Return None if there are no languages.
    """
    if REFERENCE in languages:
        return REFERENCE
    return max(sorted(languages), key=lambda code: int(languages[code]["bytes"]), default=None)
