"""Configuration of the network's shape."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from bloomery.config.explain_value import shown
from bloomery.config.section import Contradiction, Count, NotBool, Positive, Section, report

Length = Annotated[int, Field(ge=8), NotBool]
"""Number of tokens in a sample."""


Depth = Annotated[int, Field(gt=0, le=10_000), NotBool]
"""Number of transformer blocks. The upper limit keeps plans small, because a plan lists every tensor of each block."""


class ModelConfig(Section):
    """Architecture and size of the network. The defaults describe a GPT like BLOOM, with ALiBi, a LayerNorm after the
    embedding, the tanh approximation of GELU, biases and tied embeddings."""

    family: Literal["gpt", "bert", "t5"] = "gpt"
    """Architecture of the network. `gpt`: a decoder. `bert`: an encoder with a masked-token head and a sentence head.
    `t5`: an encoder and a decoder. `bloomery plan` can plan all three, but only `gpt` can be trained yet."""
    layers: Annotated[Depth, Field(examples=[24])]
    """Number of transformer blocks in the network. For T5, it is the number of blocks in the encoder."""
    decoder_layers: Depth | None = None
    """Number of transformer blocks in the T5 decoder. This key is required for `family: t5` and not allowed for other
    families."""
    hidden_size: Annotated[Positive, Field(examples=[1024])]
    """Hidden size of the network, which is the width of the residual stream. It must be divisible by `heads`."""
    heads: Annotated[Positive, Field(examples=[16])]
    """Number of attention heads in each block. It must be divisible by `training.parallel.tensor`."""
    feed_forward_size: Positive | None = None
    """Number of features inside the feed-forward layer of each block. Default (null): 4 x `hidden_size`."""
    sequence_length: Annotated[Length, Field(examples=[2048])]
    """Number of tokens in a training sample. For T5, it is the number of tokens that the encoder reads."""
    decoder_sequence_length: Length | None = None
    """Number of tokens that the T5 decoder reads in a training sample. This key is required for `family: t5` and not
    allowed for other families."""
    positions: Literal["alibi", "learned", "rotary"] = "alibi"
    """Position encoding. `alibi`: a bias on the attention scores (ALiBi). `learned`: learned position embeddings.
    `rotary`: rotation of queries and keys."""
    rotary_base: Annotated[float, Field(gt=1), NotBool] = 10000.0
    """Base of the wavelengths of rotary positions (theta). This key is only allowed with `positions: rotary`."""
    activation: Literal["gelu", "swiglu"] = "gelu"
    """Activation of the feed-forward layer. `gelu`: the tanh approximation of GELU. `swiglu`: SwiGLU, which adds a
    third weight matrix as a gate."""
    tied_embeddings: bool = True
    """Use the matrix of the token embedding also as the matrix of the output head."""
    stable_attention: bool = True
    """Scale the queries and the keys of attention by head_size^(-1/4) before they are multiplied, instead of scaling
    their product. This avoids overflow in 16-bit precision."""
    embedding_layernorm: bool = True
    """Apply a LayerNorm to the output of the token embedding."""
    layer_norm_epsilon: Annotated[float, Field(gt=0), NotBool] = 1e-5
    """Small constant (epsilon) that every LayerNorm adds to the variance, so that it never divides by 0."""
    init_std: Annotated[float, Field(gt=0), NotBool] | None = None
    """Standard deviation of the initial weights. Default (null): `sqrt(1 / (3 * hidden_size))`, as in BLOOM-176B."""
    vocabulary_multiple: Positive = 128
    """The number of embedding rows is the vocabulary size, rounded up to a multiple of this value times the
    tensor-parallel size. The tokenizer itself is never padded. Two layouts with different tensor-parallel sizes can
    therefore give models with different numbers of rows. Set `padded_vocabulary_size` to get the same number of rows in
    every layout."""
    padded_vocabulary_size: Positive | None = None
    """Number of rows of the embedding matrix: at least the vocabulary size, and divisible by `vocabulary_multiple`
    times the tensor-parallel size. Default (null): the smallest such number."""
    masked_rows: Count = 0
    """Number of rows at the end of the embedding matrix that the loss ignores and the export removes. An imported model
    needs such rows if the tensor-parallel size does not divide its number of rows. These rows are zero, and the network
    computes the same output as without them. Only allowed with `padded_vocabulary_size`."""

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
            right = "no key model.rotary_base, or 'rotary' for model.positions"
            message = f"model: rotary_base {base:g} has no effect, because positions is {self.positions!r}"
            return [Contradiction(message, ("model.rotary_base", "model.positions"), base, right)]
        if self.positions != "rotary" or self.hidden_size % self.heads or self.head_size % 2 == 0:
            return []
        message = f"model: rotary positions rotate pairs of features, but the head size is odd ({self.head_size})"
        keys = ("model.heads", "model.hidden_size", "model.positions")
        suggestion = "a number of heads for which the head size (model.hidden_size / model.heads) is even"
        return [Contradiction(message, keys, self.heads, suggestion)]

    def _family_problems(self) -> list[Contradiction]:
        problems = []
        if self.family != "gpt" and self.positions != "learned":
            message = f"model: family {self.family!r} needs positions 'learned', not {self.positions!r}"
            problems.append(Contradiction(message, ("model.positions", "model.family"), self.positions, "learned"))
        if self.family != "gpt" and self.embedding_layernorm:
            message = (
                f"model: family {self.family!r} has no LayerNorm after the embedding, but embedding_layernorm is true"
            )
            problems.append(Contradiction(message, ("model.embedding_layernorm", "model.family"), True, "false"))
        for name, only in (("activation", "gelu"), ("tied_embeddings", True)):
            if self.family != "gpt" and (value := getattr(self, name)) != only:
                message = f"model: family {self.family!r} needs {name} {shown(only)}, not {shown(value)}"
                keys = (f"model.{name}", "model.family")
                problems.append(Contradiction(message, keys, value, str(only).lower()))
        for name in ("decoder_layers", "decoder_sequence_length"):
            value = getattr(self, name)
            if (value is None) == (self.family == "t5"):
                message = f"model: family {self.family!r} {'needs the' if value is None else 'has no'} key {name}"
                right = f"a whole number for {name}" if value is None else f"no {name} key"
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
