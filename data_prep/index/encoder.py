"""Encode text to token ids with the compiled encoder if its ids equal those of `tokenizers`, else with `tokenizers`.

The compiled encoder is about 20 times faster. The choice affects only the speed, so each job chooses its encoder and no
file records the choice. The compiled encoder supports plain byte-level BPE without a normaliser, with a pre-tokenizer
`bloom` or `modern` (the published tokenizer of BLOOM has `bloom`), and without added tokens that are not special. It
must also give the same ids as `tokenizers` for a set of difficult texts and for the first texts of the input.

Text that spells a special token (such as `</s>` in HTML) is encoded as ordinary text.
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
"""Concatenated token ids of all texts, int32 [t], and the number of tokens of each text, int64 [n]."""

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
"""Difficult texts: long runs, lone combining marks, joiners, unassigned and control characters, all kinds of white
space and digits."""


@dataclass(frozen=True)
class Encoder:
    """Encodes texts. `load_encoder` creates it."""

    tokenizer: Any
    """The `tokenizers.Tokenizer`, configured to encode special tokens in a text as ordinary text."""
    kernel: _bpe.Encoder | None
    """The compiled encoder, or None if `tokenizers` encodes."""

    def encode(self, texts: pa.Array | Sequence[str], end: int | None = None) -> Tokens:
        """Encode `texts`, which are strings or a text column without nulls. If `end` is given, append it to each text.

        `end` is the id of a token. The ids equal those of `tokenizers`, without the tokens that its post-processor
        would add.
        """
        column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
        if self.kernel is None:
            return _by_library(self.tokenizer, column, end)
        return _by_kernel(self.kernel, column, end)


def load_encoder(path: Path, sample: pa.Array | Sequence[str] = ()) -> Encoder:
    """Return the encoder for a tokenizer.json, if possible the compiled one. Report the choice and reason on stderr.

    Args:
        path: `tokenizer.json`.
        sample: further texts that the compiled encoder must encode like `tokenizers`.

    Raises:
        InputError: the file is missing or damaged.
    """
    tokenizer = load_tokenizer(path)
    tokenizer.encode_special_tokens = True
    value = read_json(path, any_integer=True)
    try:
        kernel = compiled_encoder(value)
        _probe(kernel, tokenizer, _hostile_texts(value))
        _probe(kernel, tokenizer, sample)
    except UnfitError as reason:
        say(
            f"{path}: encoding with the library `tokenizers`, because {reason}. This library is about 20 times "
            "slower than the compiled encoder"
        )
        return Encoder(tokenizer, None)
    say(
        f"{path}: encoding with the compiled encoder, whose token ids equal those of the library `tokenizers` for all "
        "test texts"
    )
    return Encoder(tokenizer, kernel)


class UnfitError(Exception):
    """The reason why the compiled encoder does not support a tokenizer."""


def compiled_encoder(value: dict[str, Any]) -> _bpe.Encoder:
    """Return the compiled encoder for a parsed tokenizer.json, which `tokenizers` must be able to load.

    Raises:
        UnfitError: the compiled encoder does not support the tokenizer.
    """
    model = value["model"]
    vocabulary = model.get("vocab")
    pre_tokenizer = recognise(value)
    obstacles = {
        "the tokenizer's model is not BPE": model.get("type") != "BPE",
        "the tokenizer's BPE has a `continuing_subword_prefix` or an `end_of_word_suffix`": bool(
            model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
        ),
        "the tokenizer's BPE has `ignore_merges: true`": bool(model.get("ignore_merges")),
        "the tokenizer has a normaliser": value.get("normalizer") is not None,
        "the tokenizer's pre-tokenizer is neither of the presets `bloom` and `modern`": pre_tokenizer is None,
        "the tokenizer has added tokens that are not special": not all(
            token["special"] for token in value["added_tokens"]
        ),
    }
    for reason, holds in obstacles.items():
        if holds:
            raise UnfitError(reason)
    assert pre_tokenizer is not None
    if not all(character in vocabulary for character in byte_characters()):
        raise UnfitError("the tokenizer's vocabulary lacks a token for a byte value")
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
    """Return `HOSTILE` and texts that spell the added tokens."""
    names = [token["content"] for token in value["added_tokens"]]
    return [*HOSTILE, "".join(names), *(f"a{name} {name}b" for name in names[:8])]


def _probe(kernel: _bpe.Encoder, tokenizer: Any, texts: pa.Array | Sequence[str]) -> None:
    """Raise UnfitError with the first text that `kernel` and `tokenizer` encode differently."""
    column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    (ours, our_lengths), (theirs, their_lengths) = _by_kernel(kernel, column), _by_library(tokenizer, column)
    if np.array_equal(ours, theirs) and np.array_equal(our_lengths, their_lengths):
        return
    for text in column.to_pylist():
        one = pa.array([text], pa.large_string())
        if not np.array_equal(_by_kernel(kernel, one)[0], _by_library(tokenizer, one)[0]):
            raise UnfitError(f"the two encoders give different tokens for the text {text[:60]!r}")


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
