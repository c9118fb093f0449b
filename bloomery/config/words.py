"""Word lists in a configuration. They accept only words that the search in documents can find."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

from bloomery.config.section import Section

JOINERS = "'’\u200c\u200d"
"""Characters that may occur inside a word: apostrophes, zero-width joiner and zero-width non-joiner."""
MAX_WORDS = 8
"""Maximum number of words in a phrase. In languages that are written without spaces, each letter counts as a word."""


def _letter(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LM" or category == "Nd"


def _is_word(text: str) -> bool:
    joined = (at for at, character in enumerate(text) if not _letter(character))
    return bool(text) and all(
        text[at] in JOINERS and 0 < at < len(text) - 1 and _letter(text[at - 1]) and _letter(text[at + 1])
        for at in joined
    )


def _listed(text: str) -> str:
    words = text.split(" ")
    if len(words) > MAX_WORDS or not all(map(_is_word, words)):
        raise ValueError(
            f"a word of letters, marks and digits, or up to {MAX_WORDS} such words with one space between them; no "
            "comma, bracket, byte order mark or zero-width space"
        )
    return text


ListedWord = Annotated[str, AfterValidator(_listed)]
"""A word, or a phrase of several words. The search in documents ignores case, apostrophes and joiners, but not
marks."""


class WordLists(Section):
    """Word lists of a language. For each list, the pipeline measures the share of a document's words that are in the
    list."""

    stop_words: Annotated[list[ListedWord], Field(examples=[["le", "la", "de"]])] = []
    """Function words, which are frequent in any prose of the language."""
    flagged_words: Annotated[list[ListedWord], Field(examples=[["casino bonus"]])] = []
    """Words that are typical of pornographic spam."""
