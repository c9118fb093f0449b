"""The kernel's words in plain Python, by ``unicodedata``."""

from __future__ import annotations

import unicodedata

JOINERS = "'’\u200c\u200d"
UNSPACED_NAMES = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "THAI", "TIBETAN")


def is_word(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LM" or category == "Nd"


def stands_alone(character: str) -> bool:
    """A letter of one of the unspaced scripts that these tests use."""
    name = unicodedata.name(character, "")
    return unicodedata.category(character)[0] == "L" and (name.startswith(UNSPACED_NAMES) or character == "々")


def words_of(text: str, unspaced: bool) -> list[str]:
    words: list[str] = []
    open_word = False  # whether the next character may continue the last word
    alone = False  # whether the last word is a single unspaced letter, which only marks may continue
    for at, character in enumerate(text):
        after = text[at + 1 : at + 2]
        if is_word(character):
            single = unspaced and stands_alone(character)
            mark = unicodedata.category(character)[0] == "M"
            if open_word and not single and (mark or not alone):
                words[-1] += character
            else:
                words.append(character)
                alone = single
            open_word = True
        elif open_word and not alone and character in JOINERS and after and is_word(after):
            open_word = not (unspaced and stands_alone(after))
            words[-1] += character if open_word else ""
        else:
            open_word = False
    return words


def normal(word: str) -> str:
    """Simple lower case, without apostrophes and joiners."""
    return "".join(character.lower()[0] for character in word if character not in JOINERS)
