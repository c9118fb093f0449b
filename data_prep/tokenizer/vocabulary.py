"""Ids of the vocabulary: special, reserved, byte and merged tokens, in this order; and `tokenizer.json` around them.

0..3                    <unk> <s> </s> <pad>            (BLOOM's four)
4..3+R                  <reserved_0> .. <reserved_R-1>  (placeholders for later fine-tuning)
4+R..259+R              the 256 bytes, as byte-level BPE's characters, sorted
260+R..                 merges, in the order learnt
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

UNKNOWN, BEGIN, END_OF_DOCUMENT, PADDING = "<unk>", "<s>", "</s>", "<pad>"
"""Of the tokenizers that are trained here; of any: `bloomery.contracts.tokenizer.end_of_document`."""
SPECIAL_TOKENS = (UNKNOWN, BEGIN, END_OF_DOCUMENT, PADDING)
SPECIAL_PATTERN = r"<(?:unk|s|/s|pad|reserved_[0-9]+)>"
"""Matches every special and reserved token; matches never overlap."""


def reserved_tokens(count: int) -> list[str]:
    """`<reserved_0>`, `<reserved_1>`, ..."""
    return [f"<reserved_{number}>" for number in range(count)]


def byte_characters() -> list[str]:
    """The character that stands for each byte in byte-level BPE (GPT-2's table): printable ones stand for themselves,
    the others for U+0100 and on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def symbol_order() -> npt.NDArray[np.uint8]:
    """Rank of each byte's character among the 256, uint8 [256]: Hugging Face numbers its alphabet in this order."""
    order = np.empty(256, dtype=np.uint8)
    order[np.argsort(np.array([ord(character) for character in byte_characters()]))] = np.arange(256, dtype=np.uint8)
    return order


def token_bytes(merges: npt.NDArray[np.int32]) -> list[bytes]:
    """Bytes of the 256 byte tokens and of each merge, by the kernel's ids."""
    order = symbol_order()
    tokens = [b""] * 256
    for byte in range(256):
        tokens[order[byte]] = bytes([byte])
    for left, right in merges.tolist():
        tokens.append(tokens[left] + tokens[right])
    return tokens


def build_tokenizer(merges: npt.NDArray[np.int32], reserved: int, pre_tokenizer: Any) -> Any:
    """A `tokenizers.Tokenizer` from the kernel's merges, int32 [m, 2]: BLOOM's pipeline without a normaliser.

    Args:
        merges: pairs of kernel ids (bytes 0..255 in `symbol_order`, merge k is 256 + k).
        reserved: number of reserved tokens.
        pre_tokenizer: the `tokenizers` pre-tokenizer, byte-level at its end.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, processors

    characters = byte_characters()
    texts = ["".join(characters[byte] for byte in token) for token in token_bytes(merges)]
    names = [*SPECIAL_TOKENS, *reserved_tokens(reserved)]
    vocabulary = {token: number for number, token in enumerate([*names, *texts])}
    assert len(vocabulary) == len(names) + len(texts), "a merged token spells another token"
    pairs = [(texts[left], texts[right]) for left, right in merges.tolist()]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    return tokenizer
