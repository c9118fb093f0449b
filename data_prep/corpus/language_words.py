"""Measures that depend on a document's language: listed words and the scripts of its letters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.config.stages import MeasureStage
from data_prep.corpus import _text


class LanguageWords:
    """Stop words, flagged words and scripts of a stage's languages, compiled once for all batches."""

    def __init__(self, stage: MeasureStage) -> None:
        """Compile the lists of a stage. Raises ValueError for an entry without a word and for an unknown script."""
        self._languages = pa.array(stage.words, pa.string())
        self.lists = _text.WordLists(
            [
                (_forms(words.stop_words), _forms(words.flagged_words), language in stage.unspaced)
                for language, words in stage.words.items()
            ]
        )
        self._scripts = {
            language: [_text.SCRIPTS.index(name) for name in names] for language, names in stage.scripts.items()
        }

    def numbers(self, languages: pa.Array) -> npt.NDArray[np.int32]:
        """Return int32 [n]: the number in `lists` of each document's language.

        A language without a list has the number of `default`, or -1 if there is no `default`.
        """
        others = pc.index(self._languages, "default").as_py()  # `pc.index` returns -1 if there is no `default`
        return np.asarray(pc.fill_null(pc.index_in(languages, value_set=self._languages), others), np.int32)

    def scripts(self, shares: npt.NDArray[np.float64], languages: pa.Array) -> dict[str, Any]:
        """Return the columns `script_ratio` and `scripts`.

        `script_ratio` is the share of a document's letters in the scripts of its language, or 1 if the language lists
        no scripts. `scripts` has the share of letters in each script.

        Args:
            shares: float64 [n, scripts], shares of letters from the kernel.
            languages: language codes [n].
        """
        encoded = languages.dictionary_encode()
        ratio = np.ones(len(languages))
        for number, language in enumerate(encoded.dictionary.to_pylist()):
            if language in self._scripts:
                rows = np.asarray(encoded.indices) == number
                # Columns are added in a fixed order, because a floating-point sum must not depend on the batch size.
                ratio[rows] = sum(shares[rows, script] for script in self._scripts[language])
        columns = [pa.array(np.ascontiguousarray(column)) for column in shares.T]
        return {"script_ratio": ratio, "scripts": pa.StructArray.from_arrays(columns, names=list(_text.SCRIPTS))}


def _forms(words: Sequence[str]) -> list[str]:
    """Return the words in every way that texts encode their letters, because documents are measured unnormalised.

    The forms of a word are: unchanged; composed (NFC); decomposed (NFD); composed vowels with separate tone marks, as
    in Vietnamese text from Windows; and Indic letters with a nukta as one code point, which NFC never produces.
    """
    forms = []
    for word in words:
        composed, decomposed = unicodedata.normalize("NFC", word), unicodedata.normalize("NFD", word)
        one_code_point = composed
        for pair, letter in _NUKTA_LETTERS.items():
            one_code_point = one_code_point.replace(pair, letter)
        forms += [word, composed, decomposed, "".join(map(_tone_apart, composed)), one_code_point]
    return list(dict.fromkeys(forms))


_TONES = "\u0300\u0301\u0303\u0309\u0323"
_INDIC = map(chr, range(0x900, 0xE00))
_NUKTA_LETTERS = {
    decomposed: letter
    for letter in _INDIC
    if len(decomposed := unicodedata.normalize("NFD", letter)) == 2 and unicodedata.normalize("NFC", letter) != letter
}


def _tone_apart(character: str) -> str:
    letter, *marks = list(unicodedata.normalize("NFD", character))
    vowel = unicodedata.normalize("NFC", letter + "".join(mark for mark in marks if mark not in _TONES))
    return vowel + "".join(mark for mark in marks if mark in _TONES)
