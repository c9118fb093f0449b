"""mixture.json: how much of each language tokenizer and training see."""

from __future__ import annotations

import math
from pathlib import Path

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError


def read_weights(path: Path) -> dict[str, float]:
    """Weight per language of `{"languages": {code: {"weight": w, ...}}, ...}`, sorted by code. Raises InputError."""
    try:
        weights = {code: float(entry["weight"]) for code, entry in sorted(read_json(path)["languages"].items())}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"not a mixture ({error!r})", where=str(path), expected='{"languages": {code: {"weight": ...}}}'
        ) from error
    for code, weight in weights.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"weight {weight} of language {code!r}", where=str(path), expected="a number from 0 on")
    return weights
