"""Compute squarified treemaps (Bruls, Huizing, van Wijk 2000): rectangles with given areas that are nearly square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle. x increases to the right and y increases downwards."""

    x: float
    y: float
    width: float
    height: float


def squarify(sizes: Sequence[float], box: Box) -> list[Box]:
    """Return one rectangle per size, in the same order. They fill `box`, and areas are proportional to sizes.

    Sizes must be positive and in descending order, because the order makes the rectangles nearly square.
    """
    boxes: list[Box] = []
    while len(boxes) < len(sizes):
        left = sizes[len(boxes) :]
        upright = box.width >= box.height
        side, across = (box.height, box.width) if upright else (box.width, box.height)
        scale = side * across / sum(left)
        if not scale:
            # No area remains for the remaining sizes, because they are too small for floating-point numbers.
            return boxes + [Box(box.x, box.y, 0, 0)] * len(left)
        end = 1
        while end < len(left) and _worst(left[: end + 1], scale, side) <= _worst(left[:end], scale, side):
            end += 1
        thick = across * (sum(left[:end]) / sum(left))
        boxes += _row(left[:end], box, upright, thick)
        if upright:
            box = Box(box.x + thick, box.y, box.width - thick, box.height)
        else:
            box = Box(box.x, box.y + thick, box.width, box.height - thick)
    return boxes


def _worst(sizes: Sequence[float], scale: float, side: float) -> float:
    """Return the largest aspect ratio in a row of these sizes along `side`. `scale` is the area of size 1."""
    total = sum(sizes)
    square = side * side / scale / total
    return max(square * sizes[0] / total, total / (square * sizes[-1]))


def _row(sizes: Sequence[float], box: Box, upright: bool, thick: float) -> list[Box]:
    """Return the rectangles of one row along the shorter side of `box`, at the left or upper edge of `box`."""
    side, start = (box.height, box.y) if upright else (box.width, box.x)
    total, before, placed = sum(sizes), 0.0, []
    for size in sizes:
        offset, long = start + side * (before / total), side * (size / total)
        placed.append(Box(box.x, offset, thick, long) if upright else Box(offset, box.y, long, thick))
        before += size
    return placed
