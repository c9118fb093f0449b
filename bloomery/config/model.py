"""Configuration of the network's shape."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from bloomery.config.section import Contradiction, NotBool, Positive, Section, report

Length = Annotated[int, Field(ge=8), NotBool]
"""Number of tokens in a sample."""


Depth = Annotated[int, Field(gt=0, le=10_000), NotBool]
"""Number of transformer blocks. The limit bounds the size of a plan, which declares every tensor of each block."""


class ModelConfig(Section):
    """The network. The default is a GPT like BLOOM: ALiBi, LayerNorm after the embedding, tanh GELU, biases, tied
    embeddings."""

    family: Literal["gpt", "bert", "t5"] = "gpt"
    """Architecture. `gpt`: decoder. `bert`: encoder with a masked-token head and a sentence head. `t5`: encoder and
    decoder. BERT and T5 can be planned but not trained yet."""
    layers: Annotated[Depth, Field(examples=[24])]
    """Number of transformer blocks (for T5: of the encoder)."""
    decoder_layers: Depth | None = None
    """Number of transformer blocks of the T5 decoder. Required for T5; not allowed for other families."""
    hidden_size: Annotated[Positive, Field(examples=[1024])]
    """Width of the residual stream. It must be divisible by `heads`."""
    heads: Annotated[Positive, Field(examples=[16])]
    """Number of attention heads. It must be divisible by `training.parallel.tensor`."""
    feed_forward_size: Positive | None = None
    """Width of the feed-forward layer. Default (null): 4 x hidden_size."""
    sequence_length: Annotated[Length, Field(examples=[2048])]
    """Number of tokens in a training sample (for T5: of the encoder)."""
    decoder_sequence_length: Length | None = None
    """Number of tokens in a sample of the T5 decoder. Required for T5; not allowed for other families."""
    positions: Literal["alibi", "learned", "rotary"] = "alibi"
    """Position encoding. `alibi`: a bias on the attention scores (ALiBi). `learned`: learned position embeddings.
    `rotary`: rotation of queries and keys."""
    rotary_base: Annotated[float, Field(gt=1), NotBool] = 10000.0
    """Base of the wavelengths of rotary positions. Only allowed with `positions: rotary`."""
    activation: Literal["gelu", "swiglu"] = "gelu"
    """Activation of the feed-forward layer. `gelu`: the tanh approximation of GELU. `swiglu`: SwiGLU, which adds a
    third matrix as a gate."""
    tied_embeddings: bool = True
    """Use the embedding matrix as the output head too."""
    stable_attention: bool = True
    """Scale queries and keys by head_size^(-1/4) each before their product, instead of scaling the product. This avoids
    overflow in 16-bit precision."""
    embedding_layernorm: bool = True
    """Apply a LayerNorm after the embedding."""
    layer_norm_epsilon: Annotated[float, Field(gt=0), NotBool] = 1e-5
    """Epsilon of every LayerNorm."""
    init_std: Annotated[float, Field(gt=0), NotBool] | None = None
    """Standard deviation of the initial weights. Default (null): sqrt(1 / (3 * hidden_size)), as in BLOOM-176B."""
    vocabulary_multiple: Positive = 128
    """The number of embedding rows is the vocabulary size rounded up to a multiple of this value times the
    tensor-parallel size. The tokenizer itself is never padded. Layouts with different tensor-parallel sizes may thus
    give models with different numbers of rows; set `padded_vocabulary_size` to make the numbers equal."""
    padded_vocabulary_size: Positive | None = None
    """Number of embedding rows. Default (null): the smallest number that `vocabulary_multiple` allows."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> ModelConfig:
        report([*self._head_problems(), *self._rotary_problems(), *self._family_problems()], info)
        return self

    def _head_problems(self) -> list[Contradiction]:
        if self.hidden_size % self.heads == 0:
            return []
        right = self.heads * math.ceil(self.hidden_size / self.heads)
        message = f"model: hidden_size {self.hidden_size} must be divisible by heads {self.heads}"
        keys = ("model.hidden_size", "model.heads")
        return [Contradiction(message, keys, self.hidden_size, f"a multiple of {self.heads}, such as {right}")]

    def _rotary_problems(self) -> list[Contradiction]:
        """Check rotary positions, which rotate pairs of features and need an even head size."""
        base, default = self.rotary_base, type(self).model_fields["rotary_base"].default
        if self.positions != "rotary" and base != default:
            message = f"model: rotary_base {base:g} has no effect with positions {self.positions}"
            return [Contradiction(message, ("model.rotary_base", "model.positions"), base, "no rotary_base key")]
        if self.positions != "rotary" or self.hidden_size % self.heads or self.head_size % 2 == 0:
            return []
        message = f"model: rotary positions rotate pairs of features, but the head size {self.head_size} is odd"
        keys = ("model.heads", "model.hidden_size", "model.positions")
        return [Contradiction(message, keys, self.heads, "an even hidden_size / heads")]

    def _family_problems(self) -> list[Contradiction]:
        problems = []
        if self.family != "gpt" and self.positions != "learned":
            message = f"model: family {self.family} needs positions learned, not {self.positions}"
            problems.append(Contradiction(message, ("model.positions", "model.family"), self.positions, "learned"))
        if self.family != "gpt" and self.embedding_layernorm:
            message = f"model: family {self.family} has no embedding_layernorm"
            problems.append(Contradiction(message, ("model.embedding_layernorm", "model.family"), True, "false"))
        for name, only in (("activation", "gelu"), ("tied_embeddings", True)):
            if self.family != "gpt" and (value := getattr(self, name)) != only:
                message = f"model: family {self.family} needs {name} {str(only).lower()}, not {str(value).lower()}"
                keys = (f"model.{name}", "model.family")
                problems.append(Contradiction(message, keys, value, str(only).lower()))
        for name in ("decoder_layers", "decoder_sequence_length"):
            value = getattr(self, name)
            if (value is None) == (self.family == "t5"):
                message = f"model: family {self.family} {'needs' if value is None else 'has no'} {name}"
                right = "a number" if value is None else f"no {name} key"
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
        """Effective standard deviation of the initial weights."""
        return self.init_std if self.init_std is not None else math.sqrt(1.0 / (3.0 * self.hidden_size))
