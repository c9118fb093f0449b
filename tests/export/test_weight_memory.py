"""Test that memory is used again only for tensors of the same size that are still expected."""

from __future__ import annotations

import torch

from export.weight_memory import WeightMemory


def test_memory_is_used_again_and_dropped_if_nothing_needs_it():
    memory = WeightMemory([24, 24, 24, 8])
    first, second = (memory.take((2, 3), torch.float32) for _ in range(2))
    assert first.data_ptr() != second.data_ptr()
    address = first.data_ptr()
    memory.give(first)
    memory.give(second)  # only one more tensor of this size is expected
    third = memory.take((6, 2), torch.bfloat16)
    assert third.data_ptr() == address
    assert (third.shape, third.dtype, third.is_contiguous()) == ((6, 2), torch.bfloat16, True)
    memory.give(third)
    assert not memory._free[24]


def test_a_view_gives_back_the_whole_memory():
    memory = WeightMemory([24, 24])
    whole = memory.take((3, 2), torch.float32)
    memory.give(whole[:2])
    assert memory.take((3, 2), torch.float32).data_ptr() == whole.data_ptr()
