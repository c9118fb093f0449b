"""Language identification: detectors whose answers are codes with shares of a text's bytes."""

from data_prep.corpus.langid.cld2 import detect
from data_prep.corpus.langid.detection import Detection
from data_prep.corpus.langid.identify import LanguageIdentifier, identifier

__all__ = ["Detection", "LanguageIdentifier", "detect", "identifier"]
