"""Networks that are measured on a GPU: smaller BLOOM models (config/models) and a tiny one to test the programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """A network and the batch for its measurement."""

    layers: int
    hidden: int
    heads: int
    length: int
    rows: int
    micro_batch: int
    micro_batches: int

    @property
    def model(self) -> dict[str, Any]:
        """Return the configuration's section `model`."""
        return {
            "layers": self.layers,
            "hidden_size": self.hidden,
            "heads": self.heads,
            "sequence_length": self.length,
            "padded_vocabulary_size": self.rows,
        }


SHAPES = {
    "350m": Shape(layers=24, hidden=1024, heads=16, length=2048, rows=250_880, micro_batch=4, micro_batches=8),
    "1b3": Shape(layers=24, hidden=2048, heads=16, length=2048, rows=250_880, micro_batch=4, micro_batches=8),
    # Only 8 of the 30 blocks, because the optimizer state of all blocks would fill the memory.
    "6b3-slice": Shape(layers=8, hidden=4096, heads=32, length=2048, rows=250_880, micro_batch=4, micro_batches=8),
    "tiny": Shape(layers=2, hidden=64, heads=4, length=64, rows=512, micro_batch=2, micro_batches=2),
}
