"""How many bytes of text each token spells: what text tokens stand for, counted without decoding them."""

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
    """UTF-8 bytes that each id spells, int32 [vocabulary_size]: 0 for special tokens, `NO_TOKEN` for ids without one.

    Exact for byte-level tokenizers. Of WordPiece and SentencePiece ones, which put a space before words, the space of
    a text's first word is counted too.
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
    """What tells a token's bytes, by the tokenizer's decoder."""
    steps = [] if decoder is None else decoder.get("decoders", [decoder])
    kinds = {step["type"]: step for step in steps}
    if "ByteLevel" in kinds:
        alphabet = frozenset(byte_characters())
        # A character outside of the alphabet makes the decoder take the whole token as it is written.
        return lambda token: len(token) if alphabet.issuperset(token) else len(token.encode())
    if "WordPiece" in kinds:
        inner = kinds["WordPiece"]["prefix"]
        return lambda token: len(token.removeprefix(inner).encode()) + (not token.startswith(inner))
    return lambda token: 1 if _BYTE.fullmatch(token) else len(token.replace("▁", " ").encode())
