"""Give a model of the proof the weights of a transformers model that is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from bloomery.spec.transformers_families.family import HEAD


class StateDictWeights:
    """The weights of a model of transformers (see `export.proof.written_weights.Weights`)."""

    def __init__(self, model: Any) -> None:
        tied = {HEAD} if model.config.tie_word_embeddings else set()
        self._state = {name: tensor for name, tensor in model.state_dict().items() if name not in tied}
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._state.items()}

    def tensor(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        return self._state[name].clone() if out is None else out.copy_(self._state[name])

    def expect(self, names: Sequence[str]) -> None:
        assert set(names) <= self.shapes.keys()

    def slices(self, name: str, rows: int) -> Iterator[tuple[int, torch.Tensor]]:
        for first in range(0, len(self._state[name]), rows):
            yield first, self._state[name][first : first + rows]

    def rows(self, name: str, wanted: torch.Tensor) -> torch.Tensor:
        return self._state[name][wanted]
