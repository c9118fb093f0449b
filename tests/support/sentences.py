"""Make sentences from a small vocabulary in three languages."""

from __future__ import annotations

import random

WORDS = {
    "en": ["the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "his", "but", "at"],
    "hi": ["के", "में", "है", "की", "और", "से", "का", "को", "पर", "यह", "था", "कि", "लिए", "एक"],
    "zhs": [*"的一是在不了有和人这中大为上个国", "时来用们"],
}


def texts(language: str, number: int = 12) -> list[str]:
    """Return sentences of a small vocabulary. Every call returns the same sentences."""
    chosen = random.Random(language)
    joint = "" if language == "zhs" else " "
    return [joint.join(chosen.choices(WORDS[language], k=30)) + "." for _ in range(number)]
