"""Language identification. Detectors return language codes with their shares of a text's bytes."""

from data_prep.corpus.langid.cld2 import detect
from data_prep.corpus.langid.detection import Detection
from data_prep.corpus.langid.identify import LanguageIdentifier, identifier

__all__ = ["Detection", "LanguageIdentifier", "detect", "identifier"]
