"""Compiled kernel of dropout (``csrc/dropout``). The functions use one thread and release the GIL."""

import numpy as np
from numpy.typing import NDArray

def drop_float(
    x: NDArray[np.float32],
    out: NDArray[np.float32],
    numbers: NDArray[np.int64],
    first: int,
    threshold: int,
    scale: float,
    causal: int = 0,
) -> None:
    """Write x to ``out``, [rows, columns], with some elements replaced by 0 and the others multiplied by ``scale``.

    Row r holds the elements ``first``, ``first`` + 1, ... of a sample. Element e becomes 0 if its 16-bit random number
    is below ``threshold``. ``numbers[r]`` states the key and the stream of the row in Philox4x32-10. The random number
    of element e is the half e % 8 of block e // 8. The halves of a block are the low and the high half of its word 0,
    then those of its words 1 to 3.

    If ``causal`` is not 0, the elements are rows of square matrices of this length, and the elements right of the
    diagonal become 0. Their random numbers are not computed.

    Raises:
        ValueError: the shapes of the arrays do not fit.
        TypeError: an array has another type or is not contiguous.
    """

def drop_bfloat16(
    x: NDArray[np.uint16],
    out: NDArray[np.uint16],
    numbers: NDArray[np.int64],
    first: int,
    threshold: int,
    scale: float,
    causal: int = 0,
) -> None:
    """Do the same for bfloat16 values, which are given as their bits.

    A product is rounded to the nearest value, ties to even.
    """
