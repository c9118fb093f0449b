"""Detect languages with any fastText classifier: lid.176, GlotLID, OpenLID, NLLB's model or one of your own.

A classifier returns one probability for a whole text, but accept sets need shares of bytes. So a text is split into
pieces, and each piece counts for its most probable language.
"""

from __future__ import annotations

from pathlib import Path

from bloomery.base.errors import InputError, ResourceError
from bloomery.base.unreadable import why_unreadable
from data_prep.corpus.langid import cld2
from data_prep.corpus.langid.codes import ANY_CHINESE, CHINESE, TRADITIONAL_CHINESE, code_of
from data_prep.corpus.langid.detection import UNKNOWN, Detection, from_shares

PIECE_CHARACTERS = 512
_LEAST_PROBABILITY = 0.5
"""Least mean probability of a reliable detection."""


class FastTextModel:
    """A fastText language classifier in memory."""

    def __init__(self, path: Path) -> None:
        """Read a `.bin` or `.ftz` file.

        Raises:
            ResourceError: the package `fasttext` is not installed.
            InputError: the file is missing or is not a fastText classifier.
        """
        try:
            import fasttext
        except ImportError as error:
            raise ResourceError(
                "the package fasttext is not installed",
                where=str(path),
                expected="the extra `fasttext`: pip install 'bloomery[fasttext]'",
            ) from error
        expected = "a fastText classifier (a .bin or .ftz file); check the key corpus.language_id.fasttext_model"
        try:
            self._model = fasttext.load_model(str(path))
            # A threshold of 0 would leave out labels that are very unlikely, if the model has a hierarchical softmax.
            labels = self._model.predict("a", k=-1, threshold=-1.0)[0]
        except (ValueError, RuntimeError, MemoryError) as error:
            raise InputError(f"cannot be read ({why_unreadable(error)})", where=str(path), expected=expected) from error
        self.codes = frozenset(map(code_of, labels))
        """Every code that the model can return."""
        if ANY_CHINESE in self.codes:
            self.codes |= {CHINESE, TRADITIONAL_CHINESE}

    def detect(self, text: str) -> Detection:
        """Return the languages of a text. The result for an empty text has no codes."""
        line = " ".join(text.split())
        if not line:
            return UNKNOWN
        pieces = [line[start : start + PIECE_CHARACTERS] for start in range(0, len(line), PIECE_CHARACTERS)]
        sizes = [len(piece.encode("utf-8")) for piece in pieces]
        total = sum(sizes)
        shares: dict[str, float] = {}
        certain = 0.0
        for piece, size in zip(pieces, sizes, strict=True):
            labels, probabilities = self._model.predict(piece)
            if labels:
                code = code_of(labels[0])
                shares[code] = shares.get(code, 0.0) + size / total
                certain += probabilities[0] * size / total
        if ANY_CHINESE in shares:
            script = _chinese_script(text)
            shares[script] = shares.get(script, 0.0) + shares.pop(ANY_CHINESE)
        return from_shares(shares, certain >= _LEAST_PROBABILITY)


def _chinese_script(text: str) -> str:
    """Return the code of simplified or traditional Chinese. CLD2 distinguishes the two by their characters."""
    shares = dict(zip(*cld2.detect(text)[1:], strict=True))
    return TRADITIONAL_CHINESE if shares.get(TRADITIONAL_CHINESE, 0.0) > shares.get(CHINESE, 0.0) else CHINESE
