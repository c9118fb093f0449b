"""Test the treemap: areas in proportion, no overlaps, and rectangles that are almost squares."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.report.treemap import Box, squarify

SIZES = st.lists(st.integers(1, 2 * 10**12), min_size=1, max_size=60).map(lambda sizes: sorted(sizes, reverse=True))


@given(SIZES, st.floats(1, 1000), st.floats(1, 1000))
def test_rectangles_fill_their_box_in_proportion_and_do_not_overlap(
    sizes: list[int], width: float, height: float
) -> None:
    boxes = squarify(sizes, Box(3, 5, width, height))
    tiny = 1e-9 * width * height
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(size / sum(sizes) * width * height, rel=1e-6, abs=tiny)
        assert box.x >= 3 - 1e-6
        assert box.y >= 5 - 1e-6
        assert box.x + box.width <= 3 + width + 1e-6
        assert box.y + box.height <= 5 + height + 1e-6
    for one, other in combinations(boxes, 2):
        across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
        down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
        assert across <= 1e-6 * width or down <= 1e-6 * height


def test_squarify_reproduces_the_example_of_the_paper() -> None:
    """Figure 4 of Bruls, Huizing and van Wijk has areas of 6, 6, 4, 3, 2, 2 and 1 in a box of 6 x 4."""
    boxes = squarify([6, 6, 4, 3, 2, 2, 1], Box(0, 0, 6, 4))
    # The first row of the paper has two areas of 6, each 3 wide and 2 high.
    assert [(box.width, box.height) for box in boxes[:2]] == [(3, 2), (3, 2)]
    # The areas 4 and 3 are side by side in the remaining width of 3.
    assert boxes[2].height == boxes[3].height == pytest.approx(7 / 3)
    assert boxes[2].width == pytest.approx(12 / 7)
    assert max(max(b.width / b.height, b.height / b.width) for b in boxes) < 3
