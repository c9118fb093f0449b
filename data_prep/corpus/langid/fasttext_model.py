"""Any fastText classifier of languages: lid.176, GlotLID, OpenLID, NLLB's or one's own.

It answers for a whole text, with a probability; the accept sets want shares of bytes. So a text is cut into pieces, and
a piece belongs to the language that comes first.
"""

from __future__ import annotations

from pathlib import Path

from bloomery.base.errors import InputError, ResourceError
from data_prep.corpus.langid import cld2
from data_prep.corpus.langid.codes import ANY_CHINESE, CHINESE, TRADITIONAL_CHINESE, code_of
from data_prep.corpus.langid.detection import UNKNOWN, Detection, from_shares

PIECE_CHARACTERS = 512
_LEAST_PROBABILITY = 0.5
"""A detection is reliable from this mean probability on."""


class FastTextModel:
    """A model in memory."""

    def __init__(self, path: Path) -> None:
        """Read a `.bin` or `.ftz` file.

        Raises:
            ResourceError: the package for it is not installed.
            InputError: the file is missing or is no classifier of fastText's.
        """
        try:
            import fasttext
        except ImportError as error:
            raise ResourceError(
                "fastText is not installed", where=str(path), expected="pip install 'bloomery[fasttext]'"
            ) from error
        expected = "a classifier of fastText's (.bin, .ftz)"
        try:
            self._model = fasttext.load_model(str(path))
            # All labels: a threshold of 0 would leave out unlikely branches of a hierarchical softmax.
            labels = self._model.predict("a", k=-1, threshold=-1.0)[0]
        except (ValueError, RuntimeError, MemoryError) as error:
            raise InputError(f"cannot be read ({error})", where=str(path), expected=expected) from error
        self.codes = frozenset(map(code_of, labels))
        """Every code that it can answer with."""
        if ANY_CHINESE in self.codes:
            self.codes |= {CHINESE, TRADITIONAL_CHINESE}

    def detect(self, text: str) -> Detection:
        """Languages of a text; no codes for an empty one."""
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
    """Simplified or traditional, which CLD2 tells from the characters."""
    shares = dict(zip(*cld2.detect(text)[1:], strict=True))
    return TRADITIONAL_CHINESE if shares.get(TRADITIONAL_CHINESE, 0.0) > shares.get(CHINESE, 0.0) else CHINESE
