"""Shape of the network."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from bloomery.config.section import Contradiction, NotTruth, Positive, Section, report


class ModelConfig(Section):
    """A BLOOM-shaped GPT: ALiBi, embedding LayerNorm, tanh GELU, biases, tied embeddings."""

    family: Literal["bloom"] = "bloom"
    """Model family."""
    layers: Positive
    """Transformer blocks."""
    hidden_size: Positive
    """Width of the residual stream."""
    heads: Positive
    """Attention heads."""
    sequence_length: Annotated[int, Field(ge=8), NotTruth]
    """Tokens in a training sample."""
    layer_norm_epsilon: Annotated[float, Field(gt=0), NotTruth] = 1e-5
    """Epsilon of every LayerNorm."""
    init_std: Annotated[float, Field(gt=0), NotTruth] | None = None
    """Standard deviation of the initial weights; null: sqrt(1 / (3 * hidden_size)), as BLOOM-176B."""
    vocabulary_multiple: Positive = 128
    """The embedding has rows for a multiple of this times the tensor-parallel size (the tokenizer is never padded)."""

    @model_validator(mode="after")
    def _heads_divide(self, info: ValidationInfo) -> ModelConfig:
        if self.hidden_size % self.heads:
            message = (
                f"model: hidden_size {self.hidden_size} must be divisible by heads {self.heads}; "
                f"{self.heads * math.ceil(self.hidden_size / self.heads)} would be"
            )
            report([Contradiction(message, ("model.hidden_size", "model.heads"))], info)
        return self

    @property
    def ffn_size(self) -> int:
        """Width of the feed-forward layer."""
        return 4 * self.hidden_size

    @property
    def standard_deviation(self) -> float:
        """Initial standard deviation in force."""
        return self.init_std if self.init_std is not None else math.sqrt(1.0 / (3.0 * self.hidden_size))
