"""The n-gram fallback: naive Bayes over hashed character 2- to 4-grams, for the languages that a detector lacks.

A model is one table of whole numbers, one column a language: what an n-gram says for it, 0 where it never had it. Most
columns are there for contrast only: neighbours and other languages of the corpus, so that what is none of the model's
own languages goes elsewhere. A text is cut into pieces, and each is won by the language that explains it best or, when
two are close, by none.

Sums are of whole numbers, so every machine says the same. About 7 MB/s a core; it sees the few documents that CLD2
cannot place (1 % of the bytes of a mixed corpus) and those labelled as one of its languages.
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

ORDERS = (2, 3, 4)
BUCKETS = 1 << 13
PIECE_CHARACTERS = 256
LEAST_NGRAMS = 64
"""A shorter piece, some 20 letters, is won by none: one word is not enough."""
UNSEEN = 0.1
"""Share of a language's n-grams that are taken to be new: the uniform part of its distribution."""
SCALE = 32
"""Steps of a weight per unit of natural logarithm."""
MARGIN = 0.15
"""The least lead over the second best language, natural logarithm per n-gram. Paragraphs of Bambara and Fon that were
not trained on lead by 0.22 or more; of 25,225 in 400 other languages, 11 are taken for them (bench/langid_accuracy.py).
"""
_FORMAT = "bloomery n-gram language model 1"
_NO_LETTERS = re.compile(r"[\W\d_]+")

Buckets = npt.NDArray[np.int32]


def ngrams(text: str, characters: int) -> Iterator[Buckets]:
    """Buckets of the n-grams of each piece of a text: even pieces of about `characters` letters and single spaces.

    Case, digits and punctuation are left out. Accents stay: the tones of Fon are written or not, but those of its
    neighbours tell these from it.
    """
    letters = f" {_NO_LETTERS.sub(' ', unicodedata.normalize('NFC', text).lower()).strip()} "
    points = np.frombuffer(letters.encode("utf-32-le"), np.uint32)
    starts = len(points) - ORDERS[-1] + 1
    if starts < 1:
        return
    buckets = np.empty((len(ORDERS), starts), np.int32)
    value = np.zeros(starts, np.uint32)
    for place in range(ORDERS[-1]):  # the hash of four characters goes on from that of three
        value = (value ^ points[place : place + starts]) * np.uint32(0x9E3779B1)
        value ^= value >> np.uint32(15)
        if place + 1 in ORDERS:
            buckets[ORDERS.index(place + 1)] = value >> np.uint32(32 - BUCKETS.bit_length() + 1)
    for piece in np.array_split(buckets, max(1, round(starts / characters)), axis=1):
        yield piece.ravel()


@dataclass(frozen=True)
class NgramModel:
    """A trained model."""

    languages: tuple[str, ...]
    """The languages that it is asked for; a part of `classes`."""
    classes: tuple[str, ...]
    """Every language that it was trained on, one a column."""
    weights: npt.NDArray[np.uint8]
    """[BUCKETS, classes]: logarithm of how much more frequent an n-gram is than a new one, in steps of 1 / SCALE."""
    bytes: tuple[int, ...]
    """UTF-8 bytes of text per class."""

    @functools.cached_property
    def _table(self) -> npt.NDArray[np.float32]:
        return self.weights.astype(np.float32)

    def shares(self, text: str, languages: Iterable[str]) -> dict[str, float]:
        """Share of the text's letters that each of `languages` has won; those without any are left out."""
        wanted = set(languages) & set(self.languages)
        won: dict[str, int] = {}
        total = 0
        for buckets in ngrams(text, PIECE_CHARACTERS):
            # A product with ones is the fastest sum; it is exact, because these whole numbers stay far below 2^24.
            scores = np.ones(len(buckets), np.float32) @ self._table.take(buckets, axis=0)
            best, second = np.argpartition(scores, -2)[-2:][::-1]
            total += len(buckets)
            lead = scores[best] - scores[second]
            sure = len(buckets) >= LEAST_NGRAMS and lead >= MARGIN * SCALE * len(buckets)
            if sure and self.classes[best] in wanted:
                won[self.classes[best]] = won.get(self.classes[best], 0) + len(buckets)
        return {language: count / total for language, count in sorted(won.items())}


def save(model: NgramModel, path: Path) -> None:
    """Write a model; equal models give equal bytes."""
    about = {
        "format": _FORMAT,
        "languages": model.languages,
        "classes": model.classes,
        "bytes": model.bytes,
    }
    # One entry: safetensors writes several in an order of its own.
    metadata = {"about": json.dumps(about, ensure_ascii=False, sort_keys=True)}
    write_bytes(path, safetensors.save({"weights": np.ascontiguousarray(model.weights)}, metadata))


def load(path: Path) -> NgramModel:
    """Read a model. Raises InputError when it is missing, damaged or of another format."""
    try:
        with safe_open(path, framework="numpy") as file:
            about: dict[str, Any] = json.loads(file.metadata()["about"])
            weights = file.get_tensor("weights")
        model = NgramModel(tuple(about["languages"]), tuple(about["classes"]), weights, tuple(about["bytes"]))
        known = about["format"] == _FORMAT and weights.dtype == np.uint8
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"not an n-gram language model ({error})", where=str(path), expected=_EXPECTED) from error
    if not known or weights.shape != (BUCKETS, len(model.classes)) or len(model.classes) < 2:
        raise InputError("an n-gram language model of another version", where=str(path), expected=_EXPECTED)
    return model


_EXPECTED = "a file that `bloomery corpus train-langid` wrote"
