"""Represent any tokenizer for a report: the bytes of its tokens, and the way it encodes texts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.contracts.tokenizer import vocabulary_size
from data_prep.index.encoder import load_encoder
from data_prep.tokenizer.vocabulary import byte_characters

Usage = npt.NDArray[np.int64]
"""Number of uses of each token of a vocabulary, int64 [vocabulary]."""

GROUP_TEXTS = 64
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_BYTES = {character: byte for byte, character in enumerate(byte_characters())}


class Encoder(Protocol):
    """Interface of encoders, which convert texts to token ids."""

    def encode(self, texts: pa.Array | Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return the concatenated ids of all texts, and the number of ids of each text."""


class LibraryEncoder:
    """Encoder that uses the library `tokenizers`. A document that contains the name of a special token, such as `</s>`,
    is encoded as ordinary text."""

    def __init__(self, tokenizer: Any) -> None:
        """Use `tokenizer`. This sets its `encode_special_tokens` and disables truncation and padding."""
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer

    def encode(self, texts: pa.Array | Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Encode texts as described in `Encoder.encode`."""
        strings = texts.to_pylist() if isinstance(texts, pa.Array) else list(texts)
        found = [one.ids for one in self._tokenizer.encode_batch_fast(strings, add_special_tokens=False)]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        tokens = np.fromiter((token for ids in found for token in ids), np.int32, int(lengths.sum()))
        return tokens, lengths


@dataclass(frozen=True)
class ReportedTokenizer:
    """A tokenizer and its encoder."""

    tokenizer: Any
    """The `tokenizers.Tokenizer`."""
    encoder: Encoder
    """Encoder that gives the same ids as `tokenizer`."""

    @classmethod
    def of(cls, tokenizer: Any) -> ReportedTokenizer:
        """Return the tokenizer with the library `tokenizers` as its encoder."""
        return cls(tokenizer, LibraryEncoder(tokenizer))

    @classmethod
    def load(cls, path: Path) -> ReportedTokenizer:
        """Return the tokenizer in `path` (a tokenizer.json), with the compiled encoder if it supports the tokenizer.

        Raises InputError if the file is missing or damaged.
        """
        encoder = load_encoder(path)
        return cls(encoder.tokenizer, encoder)

    @cached_property
    def size(self) -> int:
        """Size of the vocabulary, which is the greatest id + 1."""
        return vocabulary_size(self.tokenizer)

    @cached_property
    def description(self) -> dict[str, Any]:
        """Parsed content of tokenizer.json."""
        found: dict[str, Any] = json.loads(self.tokenizer.to_str())
        return found

    @cached_property
    def special(self) -> npt.NDArray[np.bool_]:
        """Mask of special tokens and of ids without a token, bool [size]. Text is never encoded as one of these ids."""
        result = np.ones(self.size, np.bool_)
        result[list(self.tokenizer.get_vocab(with_added_tokens=False).values())] = False
        for entry in self.description.get("added_tokens", []):
            result[entry["id"]] = entry["special"]
        return result

    @cached_property
    def tokens(self) -> list[bytes]:
        """Bytes of text that each token stands for, by id.

        A special token has the bytes of its name. An id without a token has no bytes.
        """
        by_bytes, special, result = self.byte_level, self.special, [b""] * self.size
        decoder = self._decoder
        fallback = '"ByteFallback"' in decoder or bool(self.description["model"].get("byte_fallback"))
        spaces = "▁" in decoder or '"Metaspace"' in decoder
        inner = self.description["model"].get("continuing_subword_prefix") or ""
        for text, number in self.tokenizer.get_vocab(with_added_tokens=True).items():
            if by_bytes and not special[number] and all(character in _BYTES for character in text):
                result[number] = bytes(_BYTES[character] for character in text)
            elif fallback and (byte := _BYTE_TOKEN.fullmatch(text)):
                result[number] = bytes([int(byte[1], 16)])
            else:
                plain = text if special[number] else text.removeprefix(inner)
                result[number] = (plain.replace("▁", " ") if spaces else plain).encode("utf-8", "replace")
        return result

    @cached_property
    def byte_level(self) -> bool:
        """Whether the tokenizer is byte-level. If so, a token stands for the same bytes at every position in a text."""
        return '"ByteLevel"' in self._decoder

    @cached_property
    def _decoder(self) -> str:
        return json.dumps(self.description.get("decoder"), ensure_ascii=False)

    @cached_property
    def single(self) -> npt.NDArray[np.bool_]:
        """Mask of the tokens that stand for one byte, bool [size]."""
        sizes = np.fromiter(map(len, self.tokens), np.int64, self.size)
        result: npt.NDArray[np.bool_] = (sizes == 1) & ~self.special
        return result

    def usage(self, texts: Sequence[str]) -> Usage:
        """Return the number of uses of each token in `texts`."""
        result = np.zeros(self.size, np.int64)
        for begin in range(0, len(texts), GROUP_TEXTS):
            tokens, _ = self.encoder.encode(texts[begin : begin + GROUP_TEXTS])
            result += np.bincount(tokens, minlength=self.size)
        return result

    def lengths(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each text, int64 [texts]."""
        groups = [
            self.encoder.encode(texts[begin : begin + GROUP_TEXTS])[1] for begin in range(0, len(texts), GROUP_TEXTS)
        ]
        return np.concatenate([np.empty(0, np.int64), *groups])
