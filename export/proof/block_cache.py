"""Keep the keys and values of the earlier spans of a sample while one block computes.

This module imports transformers. Import it only when a model computes.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache


class BlockCache(Cache):  # type: ignore[misc]
    """Keys and values of one block, for the earlier spans of the sample that it computes.

    Transformers asks for the cache of a layer by its index. This cache ignores the index, because only one
    block computes at a time.
    """

    def __init__(self) -> None:
        """Create an empty cache."""
        super().__init__(layers=[])
        self.earlier = 0
        """Number of positions before the current span. The caller sets it before each span."""
        self._keys = self._values = torch.empty(0)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of positions before the current span."""
        return self.earlier

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the number of keys of a span of `query_length` positions, and the position of the first key."""
        return self.earlier + query_length, 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_arguments: Any, **_options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the span's keys and values [samples, heads, length, size], and return those of all positions."""
        if self.earlier:
            self._keys = torch.cat((self._keys, key_states), dim=-2)
            self._values = torch.cat((self._values, value_states), dim=-2)
        else:
            self._keys, self._values = key_states, value_states
        return self._keys, self._values
