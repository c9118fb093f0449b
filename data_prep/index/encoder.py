"""Text to token ids: by the compiled encoder where it gives the very ids of `tokenizers`, else by `tokenizers`.

Which of the two is a matter of speed alone (about 20 times), so it is decided where the work is done and written into
no file: the compiled encoder takes a tokenizer that is plain byte-level BPE, without a normaliser, with a pre-tokenizer
of ours (BLOOM's published tokenizer is one), and with special tokens only; and it must give the same ids as
`tokenizers` for texts that are made to be difficult, and for the first texts of what is to be encoded.

Text that happens to spell a special token (`</s>` in HTML) is encoded as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.atomic import read_json
from bloomery.base.progress import say
from bloomery.contracts.tokenizer import load_tokenizer
from data_prep.corpus.columns import text_buffers
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.pre_tokenizer import recognise
from data_prep.tokenizer.vocabulary import byte_characters

Tokens = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
"""Token ids of all texts, laid end to end, int32 [t]; tokens of each text, int64 [n]."""

HOSTILE = (
    "",
    "\0",
    "  ",
    "a  b   c \n\n\t\tif x:\r\n    return  1\t ",
    " " * 3000 + "x" + "\n" * 3000,
    "a" * 3000 + "ab" * 1500,
    "人人生而自由，在尊严和权利上一律平等。" * 60,
    "(a|b) [c], d... e!? «f» 'g' don't I'LL 1,234.50 ١٢٣ १२३ ½ ²",
    "\u0301\u0301 \u093f\u094d\u0915 \u0e33\u0e34 e\u0301\u0327",
    "क्ष क्‍ष ক্‌ষ می‌خواهم 👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷🇩🇪 \u200d\u200c\u2060\ufeff",
    "\ufffd\ufffe\uffff\U0001fffe\U0010ffff\ue000\U000f0000",
    "\x1c\x1d\x1e\x1f\x7f\x80\x85\xa0\u1680\u2028\u2029\u3000 \u202e\u2066",
    "".join(map(chr, range(0x3100))),
    " ".join(map(chr, range(0x3100))),
    "।".join(map(chr, range(0xF900, 0xFFFE))),
)
"""Runs, lone marks, joiners, unassigned and control characters, white space and digits of all kinds."""


@dataclass(frozen=True)
class Encoder:
    """An encoder of texts; made by `load_encoder`."""

    tokenizer: Any
    """The `tokenizers.Tokenizer`, set to treat special tokens as text."""
    kernel: _bpe.Encoder | None
    """The compiled encoder; None where `tokenizers` encodes."""

    def encode(self, texts: pa.Array | Sequence[str], end: int | None = None) -> Tokens:
        """Encode `texts` (a text column without nulls, or strings), each followed by the token `end` if there is one.

        The ids are those of `tokenizers`, without the tokens that its post-processor would add.
        """
        column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
        if self.kernel is None:
            return _by_library(self.tokenizer, column, end)
        return _by_kernel(self.kernel, column, end)


def load_encoder(path: Path, sample: pa.Array | Sequence[str] = ()) -> Encoder:
    """The encoder for a tokenizer.json, the compiled one where it can be; says on stderr which, and why.

    Args:
        path: `tokenizer.json`.
        sample: further texts that both encoders must encode alike.

    Raises:
        InputError: missing or damaged.
    """
    tokenizer = load_tokenizer(path)
    tokenizer.encode_special_tokens = True
    value = read_json(path)
    try:
        kernel = compiled_encoder(value)
        _probe(kernel, tokenizer, _hostile_texts(value))
        _probe(kernel, tokenizer, sample)
    except UnfitError as reason:
        say(f"{path}: encoding with `tokenizers`, about 20 times slower than the compiled encoder, because {reason}")
        return Encoder(tokenizer, None)
    say(f"{path}: the compiled encoder gives the ids of `tokenizers` for every text of the probe")
    return Encoder(tokenizer, kernel)


class UnfitError(Exception):
    """Why the compiled encoder does not take a tokenizer."""


def compiled_encoder(value: dict[str, Any]) -> _bpe.Encoder:
    """The compiled encoder of a parsed tokenizer.json that `tokenizers` reads. Raises UnfitError."""
    model = value["model"]
    vocabulary = model.get("vocab")
    pre_tokenizer = recognise(value)
    obstacles = {
        "its model is no BPE": model.get("type") != "BPE",
        "its BPE marks parts of words": bool(model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")),
        "its BPE ignores merges for pieces that are tokens": bool(model.get("ignore_merges")),
        "it has a normaliser": value.get("normalizer") is not None,
        "its pre-tokenizer is neither `bloom` nor `modern`": pre_tokenizer is None,
        "it has added tokens that are not special": not all(token["special"] for token in value["added_tokens"]),
    }
    for reason, holds in obstacles.items():
        if holds:
            raise UnfitError(reason)
    assert pre_tokenizer is not None
    if not all(character in vocabulary for character in byte_characters()):
        raise UnfitError("its vocabulary lacks a byte")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    merges = [(vocabulary[left], vocabulary[right], vocabulary[left + right]) for left, right in pairs]
    try:
        return _bpe.Encoder(
            np.array([vocabulary[character] for character in byte_characters()], np.int32),
            np.array(merges, np.int32).reshape(-1, 3),
            *pre_tokenizer,
        )
    except ValueError as error:
        raise UnfitError(str(error)) from error


def _hostile_texts(value: dict[str, Any]) -> list[str]:
    """`HOSTILE`, and texts that spell the added tokens."""
    names = [token["content"] for token in value["added_tokens"]]
    return [*HOSTILE, "".join(names), *(f"a{name} {name}b" for name in names[:8])]


def _probe(kernel: _bpe.Encoder, tokenizer: Any, texts: pa.Array | Sequence[str]) -> None:
    """Raise UnfitError for the first text that the two encode differently."""
    column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    (ours, our_lengths), (theirs, their_lengths) = _by_kernel(kernel, column), _by_library(tokenizer, column)
    if np.array_equal(ours, theirs) and np.array_equal(our_lengths, their_lengths):
        return
    for text in column.to_pylist():
        one = pa.array([text], pa.large_string())
        if not np.array_equal(_by_kernel(kernel, one)[0], _by_library(tokenizer, one)[0]):
            raise UnfitError(f"the two differ on {text[:60]!r}")


def _by_kernel(kernel: _bpe.Encoder, texts: pa.Array, end: int | None = None) -> Tokens:
    data, offsets = text_buffers(texts.cast(pa.large_string()))
    return kernel.encode(data, offsets, -1 if end is None else end)


def _by_library(tokenizer: Any, texts: pa.Array, end: int | None = None) -> Tokens:
    documents = [found.ids for found in tokenizer.encode_batch_fast(texts.to_pylist(), add_special_tokens=False)]
    extra = 0 if end is None else 1
    lengths = np.fromiter((len(ids) + extra for ids in documents), np.int64, len(documents))
    tokens = np.full(int(lengths.sum()), 0 if end is None else end, np.int32)
    for start, ids in zip((np.cumsum(lengths) - lengths).tolist(), documents, strict=True):
        tokens[start : start + len(ids)] = ids
    return tokens, lengths
