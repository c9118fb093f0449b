"""What other limits would remove: per rule and language the documents beyond each of a ladder of limits.

Each rule is looked at by itself: a document that breaks two is counted for both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bloomery.config.corpus import Thresholds
from bloomery.config.stages import JudgeStage
from data_prep.report.histograms import Counts, Distribution, Edges, below, ladder, up_to
from data_prep.report.rules import measure_of

QUANTILES = {"p01": 0.01, "p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


def what_if(found: dict[str, Distribution], stage: JudgeStage) -> dict[str, Any]:
    """Per rule the limits that are tried, `at`, and per language:

    `documents`; `removed`, the documents that the rule alone would remove at each of `at`; `limits`, those in force
    (none: the rule is off; several: sources follow different recipes); and `removed_now`. A limit counts as the judge
    counts: below a least one, above a greatest one.
    """
    result = {}
    for rule in Thresholds.model_fields:
        measure = measure_of(rule)
        if measure not in found:
            continue
        one = found[measure]
        tried = _tried(one, measure, stage)
        places = np.searchsorted(one.edges, tried)
        result[rule] = {
            "at": tried.tolist(),
            "languages": {code: _language(one, rule, code, places, stage) for code in one.languages},
        }
    return result


def _language(
    one: Distribution, rule: str, language: str, places: np.typing.NDArray[np.int64], stage: JudgeStage
) -> dict[str, Any]:
    limits, now = set(), 0
    for recipe, cells in one.recipes(language).items():
        limit = _limit(stage, recipe, rule, language)
        if limit is not None:
            limits.add(limit)
            now += int(_removed(rule, cells)[np.searchsorted(one.edges, limit)])
    return {
        "documents": int(one.of(language).sum()),
        "removed": _removed(rule, one.of(language))[places].tolist(),
        "limits": sorted(limits),
        "removed_now": now,
    }


def _removed(rule: str, cells: Counts) -> Counts:
    """int64 [edges]: documents that the rule would remove were each edge its limit."""
    return below(cells) if rule.startswith("min_") else cells.sum() - up_to(cells)


def _limit(stage: JudgeStage, recipe: str, rule: str, language: str) -> float | None:
    table = stage.recipes[recipe] if recipe else stage.thresholds
    limit: float | None = getattr(table.get(language) or table["default"], rule, None)
    return limit


def _tried(one: Distribution, measure: str, stage: JudgeStage) -> Edges:
    """The steps of the measure's ladder among which its documents and limits lie, with one more on each side."""
    steps = ladder(measure)
    total = np.sum(list(one.cells.values()), axis=0)
    reached = up_to(total)
    # Where documents have been seen, and not all of them yet.
    held = one.edges[(reached > 0) & (reached < total.sum())].tolist()
    for language, recipe in one.cells:
        limits = [_limit(stage, recipe, f"{side}_{measure}", language) for side in ("min", "max")]
        held += [limit for limit in limits if limit is not None]
    if not held:
        return steps
    first = max(int(np.searchsorted(steps, min(held), "right")) - 2, 0)
    last = int(np.searchsorted(steps, max(held), "left")) + 2
    return steps[first:last]


def quantiles(found: dict[str, Distribution]) -> dict[str, dict[str, dict[str, float]]]:
    """Per measure and language, quantiles interpolated between the ladder's steps; beyond them, the outermost."""
    return {
        measure: {
            code: {name: _quantile(one.edges, one.of(code), share) for name, share in QUANTILES.items()}
            for code in one.languages
            if one.of(code).any()
        }
        for measure, one in found.items()
    }


def _quantile(edges: Edges, cells: Counts, share: float) -> float:
    return float(f"{np.interp(share * cells.sum(), up_to(cells), edges):.4g}")
