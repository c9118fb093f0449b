"""datatrove as the peer of the corpus' benchmarks: its words, and which languages it splits without a download.

datatrove splits most languages into words with spaCy, which is no dependency of this project:
`pip install spacy` into the environment, or datatrove is given a regular expression instead, which makes it three times
as fast as it is.
"""

from __future__ import annotations

import functools
import importlib.util
from importlib.metadata import version as installed

import regex

LANGUAGES = {"en": "eng", "fr": "fra", "es": "spa", "pt": "por", "ca": "cat", "eu": "eus", "id": "ind"}
"""Ours to its codes: languages of the corpus for which it has a splitter in spaCy itself."""
HAS_SPACY = importlib.util.find_spec("spacy") is not None
_WORDS = regex.compile(r"\w+|[^\w\s]+")


class PlainWords:
    """Words and runs of punctuation by a regular expression, in the place of datatrove's splitter."""

    def word_tokenize(self, text: str) -> list[str]:
        found: list[str] = _WORDS.findall(text)
        return found


@functools.lru_cache(5)  # as datatrove keeps them, so that each filter of a chain does not split again
def plain_words(text: str, _language: str = "") -> list[str]:
    """In the place of `datatrove.utils.text.split_into_words`."""
    return PlainWords().word_tokenize(text)


def quiet() -> None:
    """No log lines of the peer."""
    from loguru import logger

    logger.remove()


def describe() -> dict[str, str]:
    """How the peer is named in a result."""
    return {"name": f"datatrove {installed('datatrove')}", "words": "spaCy" if HAS_SPACY else "a regular expression"}
