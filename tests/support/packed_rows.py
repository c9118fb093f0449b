"""Pack the number and the token count of documents into rows, as the compiled code of the index does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.index.split import TOKEN_BITS, Rows


def packed(numbers: npt.NDArray[Any], tokens: npt.NDArray[Any]) -> Rows:
    """Return the packed rows of documents. Document `numbers[i]` has `tokens[i]` tokens."""
    return (numbers.astype(np.uint64) << TOKEN_BITS) | tokens.astype(np.uint64)
