"""Shape of the network."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from bloomery.config.section import Contradiction, NotBool, Positive, Section, report

Length = Annotated[int, Field(ge=8), NotBool]
"""Tokens in a sample."""


Depth = Annotated[int, Field(gt=0, le=10_000), NotBool]
"""Transformer blocks: a plan declares every tensor of each."""


class ModelConfig(Section):
    """The network. The default is a GPT like BLOOM: ALiBi, embedding LayerNorm, tanh GELU, biases, tied embeddings."""

    family: Literal["gpt", "bert", "t5"] = "gpt"
    """`gpt`: decoder; `bert`: encoder with a masked-token and a sentence head; `t5`: encoder and decoder.
    BERT and T5 are planned, not yet trained."""
    layers: Depth
    """Transformer blocks (T5: of the encoder)."""
    decoder_layers: Depth | None = None
    """T5: transformer blocks of the decoder."""
    hidden_size: Positive
    """Width of the residual stream."""
    heads: Positive
    """Attention heads."""
    feed_forward_size: Positive | None = None
    """Width of the feed-forward layer; null: 4 x hidden_size."""
    sequence_length: Length
    """Tokens in a training sample (T5: of the encoder)."""
    decoder_sequence_length: Length | None = None
    """T5: tokens in a sample of the decoder."""
    positions: Literal["alibi", "learned", "rotary"] = "alibi"
    """How the network sees where a token stands: by a bias on attention (ALiBi), by learned embeddings, or by rotating
    queries and keys."""
    rotary_base: Annotated[float, Field(gt=1), NotBool] = 10000.0
    """Rotary: base of the wavelengths."""
    activation: Literal["gelu", "swiglu"] = "gelu"
    """Of the feed-forward layer: the tanh form of GELU, or SwiGLU (a third matrix gates)."""
    tied_embeddings: bool = True
    """Whether the output head is the embedding."""
    stable_attention: bool = True
    """Scale queries and keys each by head_size^(-1/4) before their product instead of the product: no overflow in
    16 bits."""
    embedding_layernorm: bool = True
    """LayerNorm after the embedding."""
    layer_norm_epsilon: Annotated[float, Field(gt=0), NotBool] = 1e-5
    """Epsilon of every LayerNorm."""
    init_std: Annotated[float, Field(gt=0), NotBool] | None = None
    """Standard deviation of the initial weights; null: sqrt(1 / (3 * hidden_size)), as BLOOM-176B."""
    vocabulary_multiple: Positive = 128
    """The embedding has rows for a multiple of this times the tensor-parallel size (the tokenizer is never padded).
    Two trainings that begin on different layouts are the same model where their rows are: see the next key."""
    padded_vocabulary_size: Positive | None = None
    """Rows of the embedding; null: the smallest right number."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> ModelConfig:
        report([*self._head_problems(), *self._rotary_problems(), *self._family_problems()], info)
        return self

    def _head_problems(self) -> list[Contradiction]:
        if self.hidden_size % self.heads == 0:
            return []
        right = self.heads * math.ceil(self.hidden_size / self.heads)
        message = f"model: hidden_size {self.hidden_size} must be divisible by heads {self.heads}; {right} would be"
        keys = ("model.hidden_size", "model.heads")
        return [Contradiction(message, keys, self.hidden_size, f"a multiple of {self.heads}, such as {right}")]

    def _rotary_problems(self) -> list[Contradiction]:
        """Rotary positions turn pairs of features."""
        base, default = self.rotary_base, type(self).model_fields["rotary_base"].default
        if self.positions != "rotary" and base != default:
            message = f"model: rotary_base {base:g}, but positions are {self.positions}"
            return [Contradiction(message, ("model.rotary_base", "model.positions"), base, "no such key")]
        if self.positions != "rotary" or self.hidden_size % self.heads or self.head_size % 2 == 0:
            return []
        message = f"model: rotary positions turn pairs of features, and a head has {self.head_size}"
        keys = ("model.heads", "model.hidden_size", "model.positions")
        return [Contradiction(message, keys, self.heads, "heads of an even size")]

    def _family_problems(self) -> list[Contradiction]:
        problems = []
        if self.family != "gpt" and self.positions != "learned":
            message = f"model: family {self.family} has learned positions, not {self.positions}"
            problems.append(Contradiction(message, ("model.positions", "model.family"), self.positions, "learned"))
        if self.family != "gpt" and self.embedding_layernorm:
            message = f"model: family {self.family} has no embedding_layernorm"
            problems.append(Contradiction(message, ("model.embedding_layernorm", "model.family"), True, "false"))
        for name, only in (("activation", "gelu"), ("tied_embeddings", True)):
            if self.family != "gpt" and (value := getattr(self, name)) != only:
                message = f"model: family {self.family} has {name} {str(only).lower()}, not {str(value).lower()}"
                keys = (f"model.{name}", "model.family")
                problems.append(Contradiction(message, keys, value, str(only).lower()))
        for name in ("decoder_layers", "decoder_sequence_length"):
            value = getattr(self, name)
            if (value is None) == (self.family == "t5"):
                message = f"model: family {self.family} {'needs' if value is None else 'has no'} {name}"
                right = "a number" if value is None else "no such key"
                problems.append(Contradiction(message, (f"model.{name}", "model.family"), value, right))
        return problems

    @property
    def ffn_size(self) -> int:
        """Width of the feed-forward layer."""
        return self.feed_forward_size or 4 * self.hidden_size

    @property
    def head_size(self) -> int:
        """Width of an attention head."""
        return self.hidden_size // self.heads

    @property
    def standard_deviation(self) -> float:
        """Initial standard deviation in force."""
        return self.init_std if self.init_std is not None else math.sqrt(1.0 / (3.0 * self.hidden_size))
