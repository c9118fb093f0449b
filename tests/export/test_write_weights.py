"""Test that weights are written in shards."""

from __future__ import annotations

import pytest

from bloomery.base.errors import InputError
from export.write_weights import plan_shards


@pytest.mark.parametrize(
    ("sizes", "limit", "shards"),
    [
        ([3, 3, 3], 9, [range(0, 3)]),
        ([3, 3, 3], 6, [range(0, 2), range(2, 3)]),
        ([9, 1, 9], 5, [range(0, 1), range(1, 2), range(2, 3)]),
        ([1], 1, [range(0, 1)]),
    ],
)
def test_shards_are_filled_in_order_up_to_the_limit(sizes, limit, shards):
    assert plan_shards(sizes, limit) == shards


def test_a_shard_limit_of_zero_is_refused():
    with pytest.raises(InputError):
        plan_shards([1], 0)
