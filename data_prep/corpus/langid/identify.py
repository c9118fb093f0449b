"""Identify languages with a main detector: CLD2 or a fastText model.

An n-gram model identifies the languages that the main detector lacks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path

from bloomery.config.languages import SHIPPED_FALLBACK
from bloomery.config.stages import DetectorStage
from data_prep.corpus.langid import cld2, ngrams
from data_prep.corpus.langid.codes import CODES
from data_prep.corpus.langid.detection import Detection, joined


class LanguageIdentifier:
    """The detectors of a run: a main detector and an n-gram model as its fallback."""

    def __init__(
        self, detect: Callable[[str], Detection], codes: frozenset[str], fallback: ngrams.NgramModel | None
    ) -> None:
        """Combine `detect`, which can return `codes`, with the model `fallback` for languages outside `codes`."""
        self._detect = detect
        self._fallback = fallback
        self._lacking = frozenset(fallback.languages if fallback else ()) - codes
        self.codes = (codes & CODES) | self._lacking
        """Codes of accept sets that at least one of the two detectors can return."""

    def detect(self, text: str, label: str = "") -> Detection:
        """Return the languages of a text. `label` is the language that the text's source states."""
        found = self._detect(text)
        if self._fallback is None or (found.reliable and found.codes and label not in self._lacking):
            return found
        return joined(found, self._fallback.shares(text, self._lacking))

    def detect_all(self, texts: Iterable[str], labels: Iterable[str]) -> list[Detection]:
        """Return the result of `detect` for each text and its label."""
        return [self.detect(text, label) for text, label in zip(texts, labels, strict=True)]


def identifier(stage: DetectorStage) -> LanguageIdentifier:
    """Return the detectors of a stage. Each process loads them only once.

    Raises:
        InputError: a model is missing or damaged.
        ResourceError: a fastText model is configured, but the package `fasttext` is not installed.
    """
    return _identifier(stage.fasttext_model, stage.fallback_model, tuple(stage.digests))


@functools.lru_cache(maxsize=4)
def _identifier(
    fasttext_model: str | None, fallback_model: str | None, _digests: tuple[str, ...]
) -> LanguageIdentifier:
    fallback = ngrams.load(Path(fallback_model) if fallback_model else SHIPPED_FALLBACK)
    if fasttext_model is None:
        return LanguageIdentifier(cld2.detect, cld2.CODES, fallback)
    from data_prep.corpus.langid.fasttext_model import FastTextModel

    model = FastTextModel(Path(fasttext_model))
    return LanguageIdentifier(model.detect, model.codes, fallback)
