"""Prepare datatrove as the peer of the corpus benchmarks: word splitters, and languages that need no download.

datatrove splits most languages into words with spaCy, which is not a dependency of this project. Install it with `pip
install spacy`. Without spaCy, this module makes datatrove split words with a regular expression; datatrove is then
three times as fast.
"""

from __future__ import annotations

import functools
import importlib.util
from importlib.metadata import version as installed

import regex

LANGUAGES = {"en": "eng", "fr": "fra", "es": "spa", "pt": "por", "ca": "cat", "eu": "eus", "id": "ind"}
"""Our language codes mapped to datatrove's, for languages of the corpus that spaCy splits without a download."""
HAS_SPACY = importlib.util.find_spec("spacy") is not None
_WORDS = regex.compile(r"\w+|[^\w\s]+")


class PlainWords:
    """Replacement for datatrove's word splitter. A regular expression finds words and runs of punctuation."""

    def word_tokenize(self, text: str) -> list[str]:
        found: list[str] = _WORDS.findall(text)
        return found


@functools.lru_cache(5)  # datatrove caches words in the same way, so that the filters of a chain split a text only once
def plain_words(text: str, _language: str = "") -> list[str]:
    """Replace `datatrove.utils.text.split_into_words`."""
    return PlainWords().word_tokenize(text)


def quiet() -> None:
    """Disable the peer's log lines."""
    from loguru import logger

    logger.remove()


def describe() -> dict[str, str]:
    """Return the name and the word splitter of the peer, as a result file states them."""
    return {"name": f"datatrove {installed('datatrove')}", "words": "spaCy" if HAS_SPACY else "a regular expression"}
