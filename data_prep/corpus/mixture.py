"""The mixture: how much of each language the tokenizer and the training see. Reads manifests, no text."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.corpus import MixtureConfig
from bloomery.config.stages import MixtureStage
from bloomery.contracts.shard import read_manifest


def weights(sizes: dict[str, int], config: MixtureConfig) -> dict[str, float]:
    """Weight per language, summing to 1.

    A language's weight is proportional to bytes ** alpha (XLM, section 3.1: alpha < 1 lifts small languages). An
    explicit weight takes the place of the share that alpha would give; then all are scaled to sum to 1.

    Raises:
        InputError: an explicit weight above 0 for a language without text, or no language left.
    """
    absent = sorted(code for code, weight in config.weights.items() if weight > 0 and not sizes.get(code))
    if absent:
        raise InputError(
            f"no clean document in {', '.join(absent)}",
            where="corpus.mixture.weights",
            expected=f"languages of the corpus: {', '.join(sorted(sizes)) or 'it is empty'}",
        )
    tempered = {code: size**config.alpha for code, size in sorted(sizes.items()) if size}
    total = math.fsum(tempered.values())
    raw = {code: config.weights.get(code, value / total) for code, value in tempered.items()}
    total = math.fsum(raw.values())
    if not total:
        raise InputError("no language has any weight", where="corpus.mixture", expected="a corpus that is not empty")
    return {code: value / total for code, value in raw.items()}


def mixture(stage: MixtureStage, corpus: Path, parts: Path, output: Path) -> dict[str, Any]:
    """Write the mixture of the clean corpus and return it.

    Raises:
        InputError: a clean shard is missing, or the configuration asks for what the corpus lacks.
    """
    languages: dict[str, Counter[str]] = {}
    sources: dict[str, dict[str, Counter[str]]] = {}
    removed: Counter[str] = Counter()
    for part in read_json(parts):
        counts = read_manifest(corpus / "clean" / f"{part}.parquet")["counts"]
        per_source = sources.setdefault(part.split("/")[0], {})
        for language, entry in counts["languages"].items():
            languages.setdefault(language, Counter()).update(entry["out"])
            removed.update({rule: size["documents"] for rule, size in entry["removed"].items()})
            per_source.setdefault(language, Counter()).update(entry["out"])
    sizes = {code: count["bytes"] for code, count in sorted(languages.items()) if count["documents"]}
    if not sizes:
        raise _empty(removed)
    total = sum(sizes.values())
    table = {
        code: {
            "documents": languages[code]["documents"],
            "bytes": sizes[code],
            "share": sizes[code] / total,
            "weight": weight,
        }
        for code, weight in weights(sizes, stage.mixture).items()
    }
    value = {
        "languages": table,
        "sources": {
            name: {
                "documents": sum(count["documents"] for count in per_language.values()),
                "bytes": sum(count["bytes"] for count in per_language.values()),
                "languages": {code: dict(count) for code, count in per_language.items() if count["documents"]},
            }
            for name, per_language in sources.items()
        },
        "alpha": stage.mixture.alpha,
    }
    write_json(output, value)
    return value


def _empty(removed: Counter[str]) -> InputError:
    """Says what emptied the corpus."""
    most = ", ".join(f"{rule} ({count})" for rule, count in removed.most_common(3))
    return InputError(
        f"no document is left; most were removed by {most}" if most else "the sources hold no document",
        where="corpus",
        expected="a corpus with clean documents: other limits in corpus.judge, or other sources",
    )
