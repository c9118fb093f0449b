"""mixture.json: how much of each language, and of each source in it, tokenizer and training see.

Both divide text into **datasets**: a language as a whole, or, where its sources have weights of their own
(`by_source`), each source of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError


@dataclass(frozen=True)
class Mixture:
    """What mixture.json asks for; every weight is a finite number from 0 on."""

    languages: dict[str, float]
    """Weight per language, sorted by code."""
    sources: dict[str, dict[str, float]]
    """Weight per source, of the languages that are mixed by source."""
    max_epochs: float | None
    """How often training may read a dataset."""

    def dataset(self, language: str, source: str) -> str:
        """Name of the dataset that a document of this language and source is in."""
        return f"{language}/{source}" if language in self.sources else language

    @property
    def datasets(self) -> dict[str, float]:
        """Weight per dataset, by language and source."""
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

    Only the weights of languages must be there. Raises InputError.
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
            f"not a mixture ({error!r})", where=str(path), expected='{"languages": {code: {"weight": ...}}}'
        ) from error
    for name, weight in (mixture.languages | mixture.datasets).items():
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"weight {weight} of {name!r}", where=str(path), expected="a number from 0 on")
    if mixture.max_epochs is not None and not (math.isfinite(mixture.max_epochs) and mixture.max_epochs > 0):
        raise InputError(f"max_epochs {mixture.max_epochs}", where=str(path), expected="a number above 0")
    return mixture
