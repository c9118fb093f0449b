"""Compute, for each rule and language, how many documents the rule would remove with each of several other limits.

Rules are independent here: a document that fails two rules is counted for both.
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
    """Return, per rule, the limits to try (`at`) and, per language, the documents that each limit would remove.

    Each language has:

    - `documents`: number of documents.
    - `removed`: number of documents that the rule alone would remove, for each limit of `at`.
    - `limits`: configured limits. The list is empty if the rule is off, and has several limits if sources use different
      recipes.
    - `removed_now`: number of documents that the rule alone removes with the configured limits.

    As in the judge stage, a minimum removes documents below the limit, and a maximum removes documents above the limit.
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
    """Return the number of documents that the rule would remove with each edge as its limit, int64 [edges]."""
    return below(cells) if rule.startswith("min_") else cells.sum() - up_to(cells)


def _limit(stage: JudgeStage, recipe: str, rule: str, language: str) -> float | None:
    table = stage.recipes[recipe] if recipe else stage.thresholds
    limit: float | None = getattr(table.get(language) or table["default"], rule, None)
    return limit


def _tried(one: Distribution, measure: str, stage: JudgeStage) -> Edges:
    """Return the edges of the measure's ladder that cover its documents and limits, with one more edge on each side."""
    steps = ladder(measure)
    total = np.sum(list(one.cells.values()), axis=0)
    reached = up_to(total)
    # Edges between the smallest and the greatest value of the documents.
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
    """Return quantiles per measure and language, interpolated between the edges of the measure's ladder.

    A quantile outside the ladder is set to the first or last edge.
    """
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
