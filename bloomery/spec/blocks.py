"""Parameters that every model family is built of: LayerNorm, linear layer, attention, feed-forward layer."""

from __future__ import annotations

from dataclasses import dataclass

from bloomery.spec.placement import Initializer, Parameter, Placement


@dataclass(frozen=True)
class Block:
    """Where a transformer block's parameters are declared."""

    prefix: str
    """Such as `h.3.`."""
    layer: int
    """Pipeline layer."""
    hidden: int
    ffn: int
    gated: bool = False
    """SwiGLU: the feed-forward layer has two outputs a feature."""

    def norm(self, module: str) -> list[Parameter]:
        """A LayerNorm."""
        return norm(f"{self.prefix}{module}", self.layer, f"{module}.", self.hidden)

    def column(self, module: str, outputs: int) -> list[Parameter]:
        """A linear layer whose output features are split; `outputs` of them."""
        return self._linear(module, (outputs, self.hidden), Placement.COLUMN, Initializer.NORMAL)

    def row(self, module: str, inputs: int) -> list[Parameter]:
        """A linear layer back to the residual stream, whose input features are split; `inputs` of them.

        It adds its bias once, after the reduction: that bias is replicated, never summed.
        """
        return self._linear(module, (self.hidden, inputs), Placement.ROW, Initializer.OUTPUT_NORMAL)

    def _linear(
        self, module: str, shape: tuple[int, int], placement: Placement, initializer: Initializer
    ) -> list[Parameter]:
        bias = Placement.REPLICATED if placement is Placement.ROW else placement
        name, local = f"{self.prefix}{module}", module
        return [
            Parameter(f"{name}.weight", shape, placement, self.layer, f"{local}.weight", initializer, True),
            Parameter(f"{name}.bias", (shape[0],), bias, self.layer, f"{local}.bias", Initializer.ZEROS, False),
        ]

    def transformer(self) -> list[Parameter]:
        """Self-attention and feed-forward layer.

        Rows of query_key_value are ordered [head, (q, k, v), head_dim], those of a gated dense_h_to_4h [feature, (gate,
        up)]: a slice for a tensor-parallel rank holds whole heads and whole pairs.
        """
        return [
            *self.norm("input_layernorm"),
            *self.column("self_attention.query_key_value", 3 * self.hidden),
            *self.row("self_attention.dense", self.hidden),
            *self.norm("post_attention_layernorm"),
            *self.column("mlp.dense_h_to_4h", 2 * self.ffn if self.gated else self.ffn),
            *self.row("mlp.dense_4h_to_h", self.ffn),
        ]

    def cross_attention(self) -> list[Parameter]:
        """Attention of a decoder block to the encoder's output."""
        return [
            *self.norm("post_inter_attention_layernorm"),
            *self.column("inter_attention.query", self.hidden),
            *self.column("inter_attention.key_value", 2 * self.hidden),
            *self.row("inter_attention.dense", self.hidden),
        ]


def transformer_count(hidden: int, ffn: int, *, gated: bool = False) -> int:
    """Parameters of `Block.transformer` by formula: 4 h^2 + 2 h f + 9 h + f (f = 4 h: 12 h^2 + 13 h).

    Gated (SwiGLU): h f + f more.
    """
    return 4 * hidden**2 + (3 if gated else 2) * hidden * ffn + 9 * hidden + (2 if gated else 1) * ffn


def cross_attention_count(hidden: int) -> int:
    """Parameters of `Block.cross_attention` by formula: 4 h^2 + 6 h."""
    return 4 * hidden**2 + 6 * hidden


def norm(name: str, layer: int, local: str, hidden: int) -> list[Parameter]:
    """A LayerNorm; `local` is the prefix of its parameters' names in the pipeline layer."""
    return [
        Parameter(f"{name}.weight", (hidden,), Placement.REPLICATED, layer, f"{local}weight", Initializer.ONES, False),
        Parameter(f"{name}.bias", (hidden,), Placement.REPLICATED, layer, f"{local}bias", Initializer.ZEROS, False),
    ]


def embedding(name: str, rows: int, hidden: int, layer: int) -> Parameter:
    """A small table of `rows` embeddings that every rank holds whole."""
    weight = f"{name}.weight"
    return Parameter(weight, (rows, hidden), Placement.REPLICATED, layer, weight, Initializer.NORMAL, True)


def vocabulary(name: str, rows: int, hidden: int, layer: int, tied_layers: tuple[int, ...] = ()) -> Parameter:
    """A table of the vocabulary's `rows`, split over the ranks: the embedding, or a head of its own."""
    weight = f"{name}.weight"
    return Parameter(weight, (rows, hidden), Placement.VOCABULARY, layer, weight, Initializer.NORMAL, True, tied_layers)


def replicated_linear(name: str, outputs: int, hidden: int, layer: int) -> list[Parameter]:
    """A small linear layer that every rank holds whole."""
    normal, zeros, whole = Initializer.NORMAL, Initializer.ZEROS, Placement.REPLICATED
    return [
        Parameter(f"{name}.weight", (outputs, hidden), whole, layer, f"{name}.weight", normal, True),
        Parameter(f"{name}.bias", (outputs,), whole, layer, f"{name}.bias", zeros, False),
    ]


def head_bias(rows: int, layer: int) -> Parameter:
    """Bias of a tied output head, one number a vocabulary row."""
    name = "lm_head.bias"
    return Parameter(name, (rows,), Placement.VOCABULARY, layer, name, Initializer.ZEROS, False)
