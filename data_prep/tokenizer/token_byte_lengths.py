"""Compute how many bytes of text each token stands for, so that text bytes can be counted without decoding."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomery.contracts.tokenizer import vocabulary_size
from data_prep.tokenizer.vocabulary import byte_characters

NO_TOKEN = -1
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def token_byte_lengths(tokenizer: Any) -> npt.NDArray[np.int32]:
    """Return the number of UTF-8 bytes that each token stands for, by id, int32 [vocabulary_size].

    Special tokens have length 0, and ids without a token have `NO_TOKEN`. The lengths are exact for byte-level
    tokenizers. WordPiece and SentencePiece tokenizers put a space before words; for them, the space before the first
    word of a text is counted too.
    """
    lengths = np.full(vocabulary_size(tokenizer), NO_TOKEN, dtype=np.int32)
    spelled = _speller(json.loads(tokenizer.to_str())["decoder"])
    added = tokenizer.get_added_tokens_decoder()
    for token, number in tokenizer.get_vocab(with_added_tokens=True).items():
        if number in added:
            lengths[number] = 0 if added[number].special else len(token.encode())
        else:
            lengths[number] = spelled(token)
    return lengths


def _speller(decoder: dict[str, Any] | None) -> Callable[[str], int]:
    """Return the function that computes a token's length in bytes, for this decoder of a tokenizer."""
    steps = [] if decoder is None else decoder.get("decoders", [decoder])
    kinds = {step["type"]: step for step in steps}
    if "ByteLevel" in kinds:
        alphabet = frozenset(byte_characters())
        # If a token has a character outside the byte-level alphabet, the decoder emits the whole token literally.
        return lambda token: len(token) if alphabet.issuperset(token) else len(token.encode())
    if "WordPiece" in kinds:
        inner = kinds["WordPiece"]["prefix"]
        return lambda token: len(token.removeprefix(inner).encode()) + (not token.startswith(inner))
    return lambda token: 1 if _BYTE.fullmatch(token) else len(token.replace("▁", " ").encode())
