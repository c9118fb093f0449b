"""Compiled kernels of LAMB (``csrc/lamb``). They use ``threads`` threads and release the GIL.

All arrays are the flat parts of one parameter group on one rank. A segment is (first element, number of elements) of
one parameter. Elements outside of all segments are not changed. c1 and c2 are the bias corrections, and the update is
u = mean / c1 / (sqrt(square / c2) + epsilon) + decay x weights. Both functions raise ValueError if shapes do not fit,
and TypeError if an array has another type.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

def update_moments(
    weights: Floats,
    gradient: Floats,
    mean: Floats,
    square: Floats,
    segments: NDArray[np.int64],
    beta1: float,
    beta2: float,
    c1: float,
    c2: float,
    epsilon: float,
    decay: float,
    threads: int,
) -> NDArray[np.float64]:
    """Update the running means of the gradient and of its square, and replace the gradient by u.

    Returns:
        The sum of weights^2 and the sum of u^2 of each segment, [segments, 2]. They do not depend on ``threads``.
    """

def update_weights(weights: Floats, updates: Floats, segments: NDArray[np.int64], rates: Floats, threads: int) -> None:
    """Subtract ``rates[s]`` x ``updates`` from the weights of segment s."""
