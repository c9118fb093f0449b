"""Read the file of `--weights`: a run's mixture.json, or plain language weights such as `{"en": 0.5, "fr": 0.5}`."""

from __future__ import annotations

import sys
from pathlib import Path

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from data_prep.formats.mixture import Mixture, read_mixture


def read_weights(path: Path) -> Mixture:
    """Return the mixture in the file. Plain weights need not add up to one.

    Raises InputError if the file has no weights, if a weight is not a finite number of at least 0, or if all weights
    are 0.
    """
    value = read_json(path)
    if isinstance(value, dict) and "languages" in value:
        return read_mixture(path)
    if not isinstance(value, dict) or not value:
        raise InputError(
            "the file has no weights", where=str(path), expected='the mixture.json of a run, or {"en": 0.5, "fr": 0.5}'
        )
    for code, weight in value.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not (number and 0 <= weight <= sys.float_info.max):
            raise InputError(
                f"the weight of {code!r} is {weight}", where=str(path), expected="a finite number of at least 0"
            )
    if not any(value.values()):
        raise InputError("all weights are 0", where=str(path), expected="at least one weight above 0")
    return Mixture({code: float(weight) for code, weight in sorted(value.items())}, sources={}, max_epochs=None)
