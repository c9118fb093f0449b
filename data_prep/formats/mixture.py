"""Read mixture.json, the weights of languages and sources for the tokenizer and the training.

The tokenizer and the training divide text into **datasets**. A language is one dataset. If the sources of a language
have weights of their own (`by_source`), each of these sources is a dataset instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError


@dataclass(frozen=True)
class Mixture:
    """Content of mixture.json. Every weight is a finite number of at least 0."""

    languages: dict[str, float]
    """Weight per language, sorted by code."""
    sources: dict[str, dict[str, float]]
    """Weight per source, for each language that is mixed by source."""
    max_epochs: float | None
    """Greatest number of times that the training may read a dataset, or None for no limit."""

    def dataset(self, language: str, source: str) -> str:
        """Return the name of the dataset of documents with this language and source."""
        return f"{language}/{source}" if language in self.sources else language

    @property
    def datasets(self) -> dict[str, float]:
        """Weight per dataset, by name (`language` or `language/source`)."""
        found = {}
        for language, weight in self.languages.items():
            of_sources = self.sources.get(language)
            if of_sources is None:
                found[language] = weight
            else:
                found |= {self.dataset(language, source): part for source, part in of_sources.items()}
        return found


def read_mixture(path: Path) -> Mixture:
    """Read `{"languages": {code: {"weight": w, "by_source": b, "sources": {name: {"weight": v}}}}, "max_epochs": n}`.

    Only the languages and their weights are required. With `by_source`, the weights of the sources are also required.
    Raises InputError if the file is missing or is not such a mixture.
    """
    try:
        value = read_json(path)
        entries = dict(sorted(value["languages"].items()))
        cap = value.get("max_epochs")
        mixture = Mixture(
            languages={code: float(entry["weight"]) for code, entry in entries.items()},
            sources={
                code: {name: float(part["weight"]) for name, part in sorted(entry["sources"].items())}
                for code, entry in entries.items()
                if entry.get("by_source")
            },
            max_epochs=None if cap is None else float(cap),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            "the file is not a mixture: an entry is missing or has the wrong type",
            where=str(path),
            expected='{"languages": {code: {"weight": ...}}}, as `bloomery corpus mixture` writes it',
        ) from error
    for name, weight in (mixture.languages | mixture.datasets).items():
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(
                f"the weight of {name!r} is {weight}", where=str(path), expected="a finite number of at least 0"
            )
    if mixture.max_epochs is not None and not (math.isfinite(mixture.max_epochs) and mixture.max_epochs > 0):
        raise InputError(f"max_epochs is {mixture.max_epochs}", where=str(path), expected="a finite number above 0")
    return mixture
