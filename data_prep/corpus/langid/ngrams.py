"""The n-gram fallback: naive Bayes over hashed character 2- to 4-grams, for the languages that a detector lacks.

A model is one table of integers with one column per language. An entry is the weight of an n-gram as evidence for the
language, or 0 if the n-gram did not occur in the training text of the language. Most columns only serve for comparison:
they belong to neighbouring languages and to other languages of the corpus. Texts that are in none of the model's own
languages match these columns, so they are not mistaken for the model's own languages. A text is split into pieces. Each
piece counts for the language with the highest score, or for none if two scores are close.

Scores are sums of integers, so they are equal on every machine. The speed is about 7 MB/s per core. The fallback reads
only the documents that CLD2 cannot identify (1 % of the bytes of a mixed corpus) and the documents that are labelled as
one of its languages.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors import numpy as safetensors

from bloomery.base.atomic import write_bytes
from bloomery.base.errors import InputError
from bloomery.base.unreadable import why_unreadable

ORDERS = (2, 3, 4)
BUCKETS = 1 << 13
PIECE_CHARACTERS = 256
LEAST_NGRAMS = 64
"""Least number of n-grams in a piece, about 20 letters. A shorter piece counts for no language."""
UNSEEN = 0.1
"""Share of a language's n-grams that is assumed to be missing from its training text. It is divided equally among all
n-grams."""
SCALE = 32
"""A weight is a natural logarithm multiplied by this number and rounded."""
MARGIN = 0.15
"""Least lead of a piece's best language over the second-best: difference of their mean natural logarithms per n-gram.
Bambara and Fon paragraphs that were not in the training text lead by 0.22 or more. Of 25,225 paragraphs in 400 other
languages, 11 are mistaken for Bambara or Fon (bench/langid_accuracy.py)."""
_FORMAT = "bloomery n-gram language model 1"
_NO_LETTERS = re.compile(r"[\W\d_]+")

Buckets = npt.NDArray[np.int32]


def ngrams(text: str, characters: int) -> Iterator[Buckets]:
    """Yield the buckets of the n-grams of each piece of a text. Pieces have about `characters` letters and spaces.

    Case, digits and punctuation are ignored. Accents are kept. Fon is written with or without tone marks, but the
    accents of its neighbouring languages distinguish them from Fon.
    """
    letters = f" {_NO_LETTERS.sub(' ', unicodedata.normalize('NFC', text).lower()).strip()} "
    points = np.frombuffer(letters.encode("utf-32-le"), np.uint32)
    starts = len(points) - ORDERS[-1] + 1
    if starts < 1:
        return
    buckets = np.empty((len(ORDERS), starts), np.int32)
    value = np.zeros(starts, np.uint32)
    for place in range(ORDERS[-1]):  # the hash of four characters extends the hash of the first three
        value = (value ^ points[place : place + starts]) * np.uint32(0x9E3779B1)
        value ^= value >> np.uint32(15)
        if place + 1 in ORDERS:
            buckets[ORDERS.index(place + 1)] = value >> np.uint32(32 - BUCKETS.bit_length() + 1)
    for piece in np.array_split(buckets, max(1, round(starts / characters)), axis=1):
        yield piece.ravel()


@dataclass(frozen=True)
class NgramModel:
    """A trained n-gram model."""

    languages: tuple[str, ...]
    """Languages that the model is used to detect; a subset of `classes`."""
    classes: tuple[str, ...]
    """All languages of the training text, one per column of `weights`."""
    weights: npt.NDArray[np.uint8]
    """[BUCKETS, classes]: log of an n-gram's frequency divided by that of an unseen n-gram, in steps of 1 / SCALE."""
    bytes: tuple[int, ...]
    """UTF-8 bytes of training text per class."""

    @functools.cached_property
    def _table(self) -> npt.NDArray[np.float32]:
        return self.weights.astype(np.float32)

    def shares(self, text: str, languages: Iterable[str]) -> dict[str, float]:
        """Return the share of the text that counts for each of `languages`. Languages with no share are left out."""
        wanted = set(languages) & set(self.languages)
        won: dict[str, int] = {}
        total = 0
        for buckets in ngrams(text, PIECE_CHARACTERS):
            # A matrix product with ones is the fastest sum. It is exact, because the integers stay far below 2^24.
            scores = np.ones(len(buckets), np.float32) @ self._table.take(buckets, axis=0)
            best, second = np.argpartition(scores, -2)[-2:][::-1]
            total += len(buckets)
            lead = scores[best] - scores[second]
            sure = len(buckets) >= LEAST_NGRAMS and lead >= MARGIN * SCALE * len(buckets)
            if sure and self.classes[best] in wanted:
                won[self.classes[best]] = won.get(self.classes[best], 0) + len(buckets)
        return {language: count / total for language, count in sorted(won.items())}


def save(model: NgramModel, path: Path) -> None:
    """Write a model to a file. The same model always gives the same file content."""
    about = {
        "format": _FORMAT,
        "languages": model.languages,
        "classes": model.classes,
        "bytes": model.bytes,
    }
    # All metadata are in one entry, because safetensors writes several entries in an unspecified order.
    metadata = {"about": json.dumps(about, ensure_ascii=False, sort_keys=True)}
    write_bytes(path, safetensors.save({"weights": np.ascontiguousarray(model.weights)}, metadata))


def load(path: Path) -> NgramModel:
    """Read a model. Raises InputError if the file is missing, damaged or has another format."""
    try:
        with safe_open(path, framework="numpy") as file:
            about: dict[str, Any] = json.loads(file.metadata()["about"])
            weights = file.get_tensor("weights")
        model = NgramModel(tuple(about["languages"]), tuple(about["classes"]), weights, tuple(about["bytes"]))
        known = about["format"] == _FORMAT and weights.dtype == np.uint8
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        reason = why_unreadable(error)
        what = f"the file is not an n-gram model for language identification ({reason})"
        raise InputError(what, where=str(path), expected=_EXPECTED) from error
    if not known or weights.shape != (BUCKETS, len(model.classes)) or len(model.classes) < 2:
        raise InputError(
            "another version of Bloomery wrote this n-gram model for language identification",
            where=str(path),
            expected=_EXPECTED,
        )
    return model


_EXPECTED = "a file that `bloomery corpus train-langid` of this version of Bloomery wrote; train the model again"
