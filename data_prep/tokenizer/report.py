"""Fertility of a tokenizer per language: what each language pays in tokens for the same text.

- `tokens_per_word` (fertility): words are runs of letters, marks and digits; characters, in languages without spaces.
- `bytes_per_token`, `characters_per_token`: compression.
- `single_byte_share`: share of tokens that are one byte; high where the vocabulary does not know the script.
- `parity`: tokens per byte over the reference's (English where there is English, else the language with most bytes in
  the sample): 1.6 means 1.6 times the tokens for as many bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import regex

from bloomery.base.digest import digest_file
from bloomery.config.languages import profile_of
from data_prep.tokenizer.sample import sample_documents
from data_prep.tokenizer.vocabulary import byte_characters, load_tokenizer

REFERENCE = "en"
GROUP_TEXTS = 64
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_CHARACTER = regex.compile(r"[\p{L}\p{N}]")


def fertility_report(tokenizer_path: Path, clean: Path, parts: list[str]) -> dict[str, Any]:
    """Fertility per language of a fixed sample of the clean corpus. Raises InputError."""
    tokenizer = load_tokenizer(tokenizer_path)
    tokenizer.encode_special_tokens = True
    single = np.zeros(tokenizer.get_vocab_size(), dtype=np.bool_)
    single[[tokenizer.token_to_id(character) for character in byte_characters()]] = True
    languages = {
        language: _counts(tokenizer, single, texts, profile_of(language).unspaced)
        for language, texts in sample_documents(clean, parts).items()
    }
    languages = {language: counts for language, counts in languages.items() if counts["tokens"]}
    reference = _reference(languages)
    for counts in languages.values():
        counts |= _ratios(counts, languages[reference] if reference else counts)
    return {
        "tokenizer": digest_file(tokenizer_path),
        "vocabulary": tokenizer.get_vocab_size(),
        "reference": reference,
        "languages": languages,
    }


def _counts(
    tokenizer: Any, single: np.ndarray[Any, np.dtype[np.bool_]], texts: Sequence[str], unspaced: bool
) -> dict[str, Any]:
    words = _CHARACTER if unspaced else _WORD
    tokens = single_tokens = 0
    for begin in range(0, len(texts), GROUP_TEXTS):
        for encoding in tokenizer.encode_batch_fast(texts[begin : begin + GROUP_TEXTS], add_special_tokens=False):
            ids = np.array(encoding.ids, dtype=np.int64)
            tokens += len(ids)
            single_tokens += int(single[ids].sum())
    return {
        "documents": len(texts),
        "bytes": sum(len(text.encode()) for text in texts),
        "characters": sum(map(len, texts)),
        "words": sum(sum(1 for _ in words.finditer(text)) for text in texts),
        "words_are": "characters" if unspaced else "words",
        "tokens": tokens,
        "single_byte_tokens": single_tokens,
    }


def _reference(languages: dict[str, dict[str, Any]]) -> str | None:
    if REFERENCE in languages or not languages:
        return REFERENCE if languages else None
    return max(sorted(languages), key=lambda language: int(languages[language]["bytes"]))


def _ratios(counts: dict[str, Any], reference: dict[str, Any]) -> dict[str, float | None]:
    tokens = counts["tokens"]
    return {
        "tokens_per_word": round(tokens / counts["words"], 4) if counts["words"] else None,
        "bytes_per_token": round(counts["bytes"] / tokens, 4),
        "characters_per_token": round(counts["characters"] / tokens, 4),
        "single_byte_share": round(counts["single_byte_tokens"] / tokens, 4),
        "parity": round(tokens / counts["bytes"] / (reference["tokens"] / reference["bytes"]), 4),
    }
