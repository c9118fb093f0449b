"""Rows of an index's split, packed as its kernel packs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.index.split import TOKEN_BITS, Rows


def packed(numbers: npt.NDArray[Any], tokens: npt.NDArray[Any]) -> Rows:
    """Rows of the documents `numbers` with so many `tokens` each."""
    return (numbers.astype(np.uint64) << TOKEN_BITS) | tokens.astype(np.uint64)
