"""Every parameter of the network, declared once and without torch (house decision 4).

Pipeline layers of a GPT with L blocks: 0 embedding (tied with the head), 1 embedding LayerNorm (outside the tied
module, because DeepSpeed treats all parameters of a tied module as replicas), 2 .. L+1 blocks, L+2 final LayerNorm,
L+3 head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.contracts.placement import Initializer, Parameter, Placement

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

EMBEDDING_LAYER = 0
EMBEDDING_NORM_LAYER = 1
FIRST_BLOCK_LAYER = 2


def final_norm_layer(model: ModelConfig) -> int:
    """Index of the final LayerNorm's pipeline layer."""
    return FIRST_BLOCK_LAYER + model.layers


def head_layer(model: ModelConfig) -> int:
    """Index of the output head's pipeline layer."""
    return FIRST_BLOCK_LAYER + model.layers + 1


def layer_count(model: ModelConfig) -> int:
    """Number of pipeline layers."""
    return model.layers + 4


def padded_vocabulary(tokenizer_entries: int, model: ModelConfig, tensor_parallel: int) -> int:
    """Embedding rows: the tokenizer's size rounded up to vocabulary_multiple x tensor_parallel (Megatron's rule)."""
    multiple = model.vocabulary_multiple * tensor_parallel
    return -(-tokenizer_entries // multiple) * multiple


def _norm(name: str, layer: int, local: str, hidden: int) -> list[Parameter]:
    return [
        Parameter(f"{name}.weight", (hidden,), Placement.REPLICATED, layer, f"{local}weight", Initializer.ONES, False),
        Parameter(f"{name}.bias", (hidden,), Placement.REPLICATED, layer, f"{local}bias", Initializer.ZEROS, False),
    ]


def _linear(
    block: int, layer: int, module: str, shape: tuple[int, int], placement: Placement, initializer: Initializer
) -> list[Parameter]:
    # A row-parallel layer adds its bias once, after the reduction: that bias is replicated, never summed.
    bias_placement = Placement.REPLICATED if placement is Placement.ROW else placement
    prefix = f"h.{block}.{module}"
    return [
        Parameter(f"{prefix}.weight", shape, placement, layer, f"{module}.weight", initializer, True),
        Parameter(f"{prefix}.bias", (shape[0],), bias_placement, layer, f"{module}.bias", Initializer.ZEROS, False),
    ]


def block_parameters(model: ModelConfig, block: int) -> list[Parameter]:
    """Parameters of transformer block `block`. query_key_value rows are ordered [head, (q, k, v), head_dim]."""
    hidden, ffn, layer = model.hidden_size, model.ffn_size, FIRST_BLOCK_LAYER + block
    normal, output = Initializer.NORMAL, Initializer.OUTPUT_NORMAL
    return [
        *_norm(f"h.{block}.input_layernorm", layer, "input_layernorm.", hidden),
        *_linear(block, layer, "self_attention.query_key_value", (3 * hidden, hidden), Placement.COLUMN, normal),
        *_linear(block, layer, "self_attention.dense", (hidden, hidden), Placement.ROW, output),
        *_norm(f"h.{block}.post_attention_layernorm", layer, "post_attention_layernorm.", hidden),
        *_linear(block, layer, "mlp.dense_h_to_4h", (ffn, hidden), Placement.COLUMN, normal),
        *_linear(block, layer, "mlp.dense_4h_to_h", (hidden, ffn), Placement.ROW, output),
    ]


def declare(model: ModelConfig, vocabulary_rows: int) -> list[Parameter]:
    """Every parameter of the model with an embedding of `vocabulary_rows` rows, in pipeline order."""
    hidden = model.hidden_size
    embedding = Parameter(
        "word_embeddings.weight",
        (vocabulary_rows, hidden),
        Placement.VOCABULARY,
        EMBEDDING_LAYER,
        "word_embeddings.weight",
        Initializer.NORMAL,
        True,
        tied_layers=(head_layer(model),),
    )
    blocks = [parameter for block in range(model.layers) for parameter in block_parameters(model, block)]
    return [
        embedding,
        *_norm("word_embeddings_layernorm", EMBEDDING_NORM_LAYER, "", hidden),
        *blocks,
        *_norm("ln_f", final_norm_layer(model), "", hidden),
    ]


def parameter_count(model: ModelConfig, vocabulary_rows: int) -> int:
    """Parameters by formula: l (12 h^2 + 13 h) + V h + 4 h (BLOOM-176B: 176,247,271,424)."""
    hidden = model.hidden_size
    return model.layers * (12 * hidden**2 + 13 * hidden) + vocabulary_rows * hidden + 4 * hidden


def stage_bounds(model: ModelConfig, vocabulary_rows: int, stages: int, method: str) -> list[int]:
    """First pipeline layer of each stage and the layer count at the end: stage s holds [bounds[s], bounds[s + 1]).

    `parameters` balances real cost: the head costs a matrix product of the embedding's size. `uniform` deals the blocks
    evenly. Every stage gets at least one block; the least greatest stage wins, earlier cuts later on ties.
    """
    block_cost = sum(parameter.count for parameter in block_parameters(model, 0))
    embedding_cost = vocabulary_rows * model.hidden_size if method == "parameters" else 0
    # Stage s takes blocks [cut[s], cut[s + 1]); the first also holds both embedding layers, the last norm and head.
    best = _best_cuts(model.layers, stages, block_cost, embedding_cost)
    return [0, *(FIRST_BLOCK_LAYER + cut for cut in best[1:-1]), layer_count(model)]


def _best_cuts(blocks: int, stages: int, block_cost: int, embedding_cost: int) -> list[int]:
    """Blocks per stage by the least greatest cost, found by bisection over the answer (it is a number of blocks)."""
    if stages == 1:
        return [0, blocks]

    def capacity(limit: int) -> list[int]:
        ends = max(1, (limit - embedding_cost) // block_cost)
        middle = max(1, limit // block_cost)
        return [ends, *([middle] * (stages - 2)), ends]

    low, high = 0, blocks * block_cost + embedding_cost
    while low < high:
        limit = (low + high) // 2
        if sum(capacity(limit)) >= blocks:
            high = limit
        else:
            low = limit + 1
    room = capacity(low)
    counts = [1] * stages
    for _ in range(blocks - stages):
        # Fill the stage that stays cheapest; the middle of the pipeline first on ties.
        costs = [
            ((counts[s] + 1) * block_cost + (embedding_cost if s in (0, stages - 1) else 0), abs(2 * s - stages + 1), s)
            for s in range(stages)
            if counts[s] < room[s]
        ]
        counts[min(costs)[2]] += 1
    cuts = [0]
    for count in counts:
        cuts.append(cuts[-1] + count)
    return cuts
