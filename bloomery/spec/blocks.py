"""Declare the parameters that all model families share: LayerNorm, linear layers, attention, feed-forward layer."""

from __future__ import annotations

from dataclasses import dataclass

from bloomery.spec.placement import Initializer, Parameter, Placement


@dataclass(frozen=True)
class Block:
    """Declares the parameters of one transformer block."""

    prefix: str
    """Prefix of the parameters' names, such as `h.3.`."""
    layer: int
    """Index of the pipeline layer that holds the block."""
    hidden: int
    ffn: int
    gated: bool = False
    """Whether the feed-forward layer is gated (SwiGLU). Its first matrix then has two outputs for each feature."""

    def norm(self, module: str) -> list[Parameter]:
        """Return the parameters of a LayerNorm."""
        return norm(f"{self.prefix}{module}", self.layer, f"{module}.", self.hidden)

    def column(self, module: str, outputs: int) -> list[Parameter]:
        """Return the parameters of a linear layer whose `outputs` output features are split over the tensor-parallel
        ranks."""
        return self._linear(module, (outputs, self.hidden), Placement.COLUMN, Initializer.NORMAL)

    def row(self, module: str, inputs: int) -> list[Parameter]:
        """Return the parameters of a linear layer whose `inputs` input features are split over the tensor-parallel
        ranks.

        The layer's output is added to the residual stream. The bias is replicated, because the layer adds the bias
        once, after the reduction.
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
        """Return the parameters of self-attention and the feed-forward layer.

        Rows of query_key_value are ordered [head, (q, k, v), head_dim]. Rows of a gated dense_h_to_4h are ordered
        [feature, (gate, up)]. A tensor-parallel rank's slice therefore holds whole heads and whole pairs.
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
        """Return the parameters of a decoder block's attention to the encoder's output."""
        return [
            *self.norm("post_inter_attention_layernorm"),
            *self.column("inter_attention.query", self.hidden),
            *self.column("inter_attention.key_value", 2 * self.hidden),
            *self.row("inter_attention.dense", self.hidden),
        ]


def transformer_count(hidden: int, ffn: int, *, gated: bool = False) -> int:
    """Return the number of parameters of `Block.transformer` by formula.

    The formula is 4 h^2 + 2 h f + 9 h + f, which is 12 h^2 + 13 h for f = 4 h. SwiGLU (`gated`) adds h f + f.
    """
    return 4 * hidden**2 + (3 if gated else 2) * hidden * ffn + 9 * hidden + (2 if gated else 1) * ffn


def cross_attention_count(hidden: int) -> int:
    """Return the number of parameters of `Block.cross_attention` by formula: 4 h^2 + 6 h."""
    return 4 * hidden**2 + 6 * hidden


def norm(name: str, layer: int, local: str, hidden: int) -> list[Parameter]:
    """Return the parameters of a LayerNorm. `local` is the prefix of their names in the pipeline layer."""
    return [
        Parameter(f"{name}.weight", (hidden,), Placement.REPLICATED, layer, f"{local}weight", Initializer.ONES, False),
        Parameter(f"{name}.bias", (hidden,), Placement.REPLICATED, layer, f"{local}bias", Initializer.ZEROS, False),
    ]


def embedding(name: str, rows: int, hidden: int, layer: int) -> Parameter:
    """Return a small table of `rows` embeddings. Every rank holds the whole table."""
    weight = f"{name}.weight"
    return Parameter(weight, (rows, hidden), Placement.REPLICATED, layer, weight, Initializer.NORMAL, True)


def vocabulary(name: str, rows: int, hidden: int, layer: int, tied_layers: tuple[int, ...] = ()) -> Parameter:
    """Return the embedding or an untied output head: a table of `rows` vocabulary rows, split over the ranks."""
    weight = f"{name}.weight"
    return Parameter(weight, (rows, hidden), Placement.VOCABULARY, layer, weight, Initializer.NORMAL, True, tied_layers)


def replicated_linear(name: str, outputs: int, hidden: int, layer: int) -> list[Parameter]:
    """Return the parameters of a small linear layer. Every rank holds the whole layer."""
    normal, zeros, whole = Initializer.NORMAL, Initializer.ZEROS, Placement.REPLICATED
    return [
        Parameter(f"{name}.weight", (outputs, hidden), whole, layer, f"{name}.weight", normal, True),
        Parameter(f"{name}.bias", (outputs,), whole, layer, f"{name}.bias", zeros, False),
    ]


def head_bias(rows: int, layer: int) -> Parameter:
    """Return the bias of a tied output head, with one number for each vocabulary row."""
    name = "lm_head.bias"
    return Parameter(name, (rows,), Placement.VOCABULARY, layer, name, Initializer.ZEROS, False)
