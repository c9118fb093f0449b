"""Make checkpoints in the layouts of Megatron-DeepSpeed from a tiny random model of transformers.

The files are pickled as Megatron pickles them: with argparse's Namespace, an enumeration of the package `megatron`, and
the states of random number generators. The names and shapes are those of bigscience-workshop/Megatron-DeepSpeed.
"""

from __future__ import annotations

import argparse
import enum
import random
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fabricated_export import canonical_weights, random_model

from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Parameter

ENTRIES, ROWS = 290, 312
"""Entries of the tokenizer and rows of the embedding."""
BLOOM: dict[str, Any] = {}
GPT2 = {"positions": "learned", "embedding_layernorm": False}
GPT_NEOX = {"positions": "rotary", "embedding_layernorm": False}
NETWORKS = {"bloom": BLOOM, "gpt2": GPT2, "gpt_neox": GPT_NEOX}


@contextmanager
def megatron_enums() -> Iterator[Any]:
    """Provide Megatron's enumeration while a file is written."""
    modules = {name: types.ModuleType(name) for name in ("megatron", "megatron.enums")}
    before = {name: sys.modules.get(name) for name in modules}
    kind = enum.Enum("PositionEmbeddingType", {"rotary": 1, "absolute": 2, "alibi": 3}, module="megatron.enums")
    modules["megatron.enums"].PositionEmbeddingType = kind  # type: ignore[attr-defined]
    sys.modules.update(modules)
    try:
        yield kind
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


@dataclass
class Fabricated:
    """A checkpoint and the model that it was made from."""

    folder: Path
    model: ModelConfig
    ranks: int
    whole: Any
    """The model of transformers in fp32 with the weights of the checkpoint."""
    masters: dict[str, torch.Tensor]
    """The fp32 weights that were rounded to the weights, by canonical name."""
    dtype: torch.dtype
    zipped: bool
    rows: int = ROWS

    def path(self, layer: int, rank: int) -> Path:
        return self.folder / f"layer_{layer:02d}-model_{rank:02d}-model_states.pt"

    def edit(self, layer: int, rank: int, change: Callable[[dict[str, Any]], None]) -> Path:
        path = self.path(layer, rank)
        state = torch.load(path, weights_only=True)
        change(state)
        torch.save(state, path, _use_new_zipfile_serialization=self.zipped)
        return path

    def write_arguments(self, **changed: Any) -> None:
        """Write mp_rank_00_model_states.pt. `changed` are other values of the arguments."""
        model = self.model
        with megatron_enums() as kind:
            positions = {"alibi": kind.alibi, "learned": kind.absolute, "rotary": kind.rotary}[model.positions]
            values = {
                "num_layers": model.layers,
                "hidden_size": model.hidden_size,
                "num_attention_heads": model.heads,
                "ffn_hidden_size": model.ffn_size,
                "kv_channels": model.head_size,
                "seq_length": model.sequence_length,
                "max_position_embeddings": model.sequence_length,
                "layernorm_epsilon": model.layer_norm_epsilon,
                "init_method_std": 0.02,
                "position_embedding_type": positions,
                "embed_layernorm": model.embedding_layernorm,
                "glu_activation": None,
                "bias_gelu_fusion": True,
                "openai_gelu": False,
                "apply_residual_connection_post_layernorm": False,
                "bf16": self.dtype is torch.bfloat16,
                "fp16": self.dtype is torch.float16,
                "params_dtype": self.dtype,
                "padded_vocab_size": self.rows,
                "data_path": ["a", "b"],
            }
            state = {
                "args": argparse.Namespace(**values | changed),
                "checkpoint_version": 3.0,
                "iteration": 95000,
                "tokens": 366_000_000,
                "checkpoint_info": {"padded_vocab_size": self.rows, "original_vocab_size": ENTRIES},
                "random_rng_state": random.getstate(),
                "np_rng_state": np.random.get_state(),
                "torch_rng_state": torch.get_rng_state(),
                "rng_tracker_states": {"model-parallel-rng": torch.get_rng_state()},
                "sparse_tensor_module_names": set(),
                "param_shapes": [OrderedDict(weight=torch.Size([2, 3]))],
                "module": None,
            }
            path = self.folder / "mp_rank_00_model_states.pt"
            torch.save(state, path, _use_new_zipfile_serialization=self.zipped)


def fabricate_layers(
    folder: Path,
    network: dict[str, Any] | None = None,
    *,
    ranks: int = 2,
    layers: int = 2,
    dtype: torch.dtype = torch.bfloat16,
    zipped: bool = True,
) -> Fabricated:
    """Write a checkpoint with layer files in `folder`/global_step95000."""
    made = _model(folder / "global_step95000", network, ranks, layers, dtype, zipped)
    files: dict[tuple[int, int], dict[str, torch.Tensor]] = {}
    weights = canonical_weights(made.whole, made.model, made.rows)
    for parameter in declare(made.model, made.rows):
        layer, key = place(parameter, layers)
        for rank in range(ranks):
            shard = weights[parameter.name][parameter.shard_slices(rank, ranks)].clone().to(dtype)
            files.setdefault((layer, rank), OrderedDict())[key] = shard
            if made.model.positions == "rotary" and key == "self_attention.dense.bias":
                files[layer, rank]["self_attention.rotary_emb.inv_freq"] = torch.ones(4)
    for (layer, rank), state in files.items():
        torch.save(state, made.path(layer, rank), _use_new_zipfile_serialization=zipped)
    made.write_arguments()
    return made


def fabricate_universal(folder: Path, network: dict[str, Any] | None = None, *, layers: int = 2) -> Fabricated:
    """Write a universal checkpoint in `folder`/universal. Its fp32 weights have more digits than bf16 can hold."""
    made = _model(folder / "universal", network, 1, layers, torch.bfloat16, zipped=True)
    for parameter in declare(made.model, made.rows):
        layer, key = place(parameter, layers)
        name = f"tied_modules.embed.{key}" if layer == 1 else f"{layer}.{key}"
        value, state = made.masters[parameter.name], {"cat_dim": 0}
        if key == "word_embeddings.weight":
            value, state = value[:ENTRIES], {"cat_dim": 0, "vocab_tensor": True}
        target = made.folder / "zero" / name
        target.mkdir(parents=True)
        torch.save(state | {"param": value.clone()}, target / "fp32.pt")
    made.write_arguments()
    return made


def place(parameter: Parameter, layers: int) -> tuple[int, str]:
    """Return the layer and the name of a parameter in bigscience's fork."""
    if parameter.name.startswith("h."):
        return int(parameter.name.split(".")[1]) + 3, parameter.local_name
    if parameter.name.startswith("ln_f."):
        return layers + 4, parameter.local_name
    return 1, parameter.name.replace("word_embeddings_layernorm", "word_embeddings.norm")


def _model(
    folder: Path, network: dict[str, Any] | None, ranks: int, layers: int, dtype: torch.dtype, zipped: bool
) -> Fabricated:
    shape = {"layers": layers, "hidden_size": 24, "heads": 12, "sequence_length": 32}
    model = ModelConfig.model_validate(shape | (network or {}))
    folder.mkdir(parents=True)
    whole = random_model(model, ROWS, dtype)
    generator = torch.Generator().manual_seed(5)
    masters = {}
    for name, weight in canonical_weights(whole, model, ROWS).items():
        moved = weight * (1 + 1e-4 * torch.rand(weight.shape, generator=generator))
        masters[name] = torch.where(moved.to(dtype) == weight.to(dtype), moved, weight).contiguous()
    return Fabricated(folder, model, ranks, whole, masters, dtype, zipped)
