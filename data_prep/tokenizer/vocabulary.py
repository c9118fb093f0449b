"""Assign the ids of a trained vocabulary and build the tokenizer with these ids.

With R reserved tokens, the ids are:

0..3                    <unk> <s> </s> <pad>            (the same four as BLOOM)
4..3+R                  <reserved_0> .. <reserved_R-1>  (placeholders for later fine-tuning)
4+R..259+R              the 256 bytes, as characters of byte-level BPE, sorted by code point
260+R..                 merged tokens, in the order in which they were trained
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

UNKNOWN, BEGIN, END_OF_DOCUMENT, PADDING = "<unk>", "<s>", "</s>", "<pad>"
"""Special tokens of the tokenizers that Bloomery trains. An imported tokenizer may have others; see
`bloomery.contracts.tokenizer.end_of_document`."""
SPECIAL_TOKENS = (UNKNOWN, BEGIN, END_OF_DOCUMENT, PADDING)
SPECIAL_PATTERN = r"<(?:unk|s|/s|pad|reserved_[0-9]+)>"
"""Regular expression that matches every special and reserved token. Matches never overlap."""


def reserved_tokens(count: int) -> list[str]:
    """Return `count` reserved tokens: `<reserved_0>`, `<reserved_1>`, ..."""
    return [f"<reserved_{number}>" for number in range(count)]


def byte_characters() -> list[str]:
    """Return the character that represents each byte in byte-level BPE (GPT-2's table).

    A printable byte is represented by its own character. The other bytes use characters from U+0100.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def symbol_order() -> npt.NDArray[np.uint8]:
    """Return the rank of each byte's character among the 256 characters, uint8 [256].

    Hugging Face `tokenizers` numbers the byte alphabet in this order.
    """
    order = np.empty(256, dtype=np.uint8)
    order[np.argsort(np.array([ord(character) for character in byte_characters()]))] = np.arange(256, dtype=np.uint8)
    return order


def token_bytes(merges: npt.NDArray[np.int32]) -> list[bytes]:
    """Return the bytes of each token, by its id in the compiled trainer: the 256 byte tokens, then the merged
    tokens."""
    order = symbol_order()
    tokens = [b""] * 256
    for byte in range(256):
        tokens[order[byte]] = bytes([byte])
    for left, right in merges.tolist():
        tokens.append(tokens[left] + tokens[right])
    return tokens


def build_tokenizer(merges: npt.NDArray[np.int32], reserved: int, pre_tokenizer: Any) -> Any:
    """Return a `tokenizers.Tokenizer` with BLOOM's pipeline, which has no normaliser.

    Args:
        merges: pairs of ids in the compiled trainer, int32 [m, 2]. Ids 0..255 are bytes in `symbol_order`; id 256 + k
            is merge k.
        reserved: number of reserved tokens.
        pre_tokenizer: `tokenizers` pre-tokenizer whose last step is `ByteLevel`.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, processors

    characters = byte_characters()
    texts = ["".join(characters[byte] for byte in token) for token in token_bytes(merges)]
    names = [*SPECIAL_TOKENS, *reserved_tokens(reserved)]
    vocabulary = {token: number for number, token in enumerate([*names, *texts])}
    assert len(vocabulary) == len(names) + len(texts), "a merged token equals another token"
    pairs = [(texts[left], texts[right]) for left, right in merges.tolist()]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    return tokenizer
