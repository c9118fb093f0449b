"""Which detector is asked about which document: CLD2 or a fastText model, then n-grams for the languages it lacks."""

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
    """The detectors of a run."""

    def __init__(
        self, detect: Callable[[str], Detection], codes: frozenset[str], fallback: ngrams.NgramModel | None
    ) -> None:
        """A detector that answers with `codes`, and a model for what it lacks."""
        self._detect = detect
        self._fallback = fallback
        self._lacking = frozenset(fallback.languages if fallback else ()) - codes
        self.codes = (codes & CODES) | self._lacking
        """Codes, as the accept sets have them, that can be told at all."""

    def detect(self, text: str, label: str = "") -> Detection:
        """Languages of a text whose source calls it `label`."""
        found = self._detect(text)
        if self._fallback is None or (found.reliable and found.codes and label not in self._lacking):
            return found
        return joined(found, self._fallback.shares(text, self._lacking))

    def detect_all(self, texts: Iterable[str], labels: Iterable[str]) -> list[Detection]:
        """`detect` of each."""
        return [self.detect(text, label) for text, label in zip(texts, labels, strict=True)]


def identifier(stage: DetectorStage) -> LanguageIdentifier:
    """The detectors of a stage, read once a process.

    Raises:
        InputError: a model is missing or damaged.
        ResourceError: the package for a fastText model is not installed.
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
