"""Read the network of a Megatron-DeepSpeed training from the arguments that the training saved.

Argument names are those of bigscience-workshop/Megatron-DeepSpeed (megatron/arguments.py), and of the later
deepspeedai/Megatron-DeepSpeed where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bloomery.base.errors import InputError
from bloomery.checkpoint.foreign.open_pickle import StandIn, open_pickle
from bloomery.config.explain_value import wrong_values
from bloomery.config.model import ModelConfig

ARGUMENTS_FILE = "mp_rank_00_model_states.pt"
"""File that holds the arguments. The files of the other ranks hold the same arguments."""
_POSITIONS: dict[Any, str] = {
    1: "rotary",
    2: "learned",
    3: "alibi",
    "rotary": "rotary",
    "rope": "rotary",
    "absolute": "learned",
    "learned_absolute": "learned",
    "alibi": "alibi",
}
"""Position encoding by the value of PositionEmbeddingType (megatron/enums.py), or by its name in later versions."""
_EMBEDDING_NORM = "word_embeddings.norm.weight"
_CLASSIC: dict[str, tuple[Any, ...]] = {
    # Activation and feed-forward layer.
    "glu_activation": (None,),
    "swiglu": (False, None),
    "squared_relu": (False, None),
    "quick_geglu": (False, None),
    "onnx_safe": (False, None),
    "num_experts": (1, None),
    "num_experts_switch": (None,),
    # Norms. With apply_layernorm_1p, the files hold the weights minus 1.
    "normalization": ("layernorm", "LayerNorm", None),
    "use_rmsnorm": (False, None),
    "apply_layernorm_1p": (False, None),
    "layernorm_zero_centered_gamma": (False, None),
    "qk_layernorm": (False, None),
    # Residual connections.
    "apply_residual_connection_post_layernorm": (False, None),
    "parallel_attn": (False, None),
    "use_parallel_residual": (False, None),
    "gpt_j_residual": (False, None),
    # Attention and positions.
    "add_bias_linear": (True, None),
    "add_qkv_bias": (False, None),
    "group_query_attention": (False, None),
    "multi_latent_attention": (False, None),
    "window_size": (None,),
    "softmax_type": ("vanilla", None),
    "rotary_percent": (1.0, None),
    "rotary_interleaved": (False, None),
    "rotary_seq_len_interpolation_factor": (1, None),
    "use_rope_scaling": (False, None),
    "no_rope_freq": (None,),
    "retro_add_retriever": (False, None),
    # Factors of the maximal update parametrization.
    "mup": (False, None),
    "use_mup": (False, None),
}
"""Arguments that must have one of these values, because Bloomery supports no network with another value.

Some of these arguments exist only in NVIDIA/Megatron-LM or in forks, whose code can be part of a training. An argument
that changes only the speed, the rounding or the loss is not listed. An example is apply_query_key_layer_scaling, which
divides the attention scores by the layer's number and multiplies them by it again.
"""
_ROTARY_BASES = ("rope_theta", "rotary_base")
"""Names of the base of rotary positions in deepspeedai/Megatron-DeepSpeed and in NVIDIA/Megatron-LM."""
_ROTARY_BASE = 10000.0
"""Base of rotary positions in bigscience's fork, which has no argument for it."""
_MOST_ROTARY_BASE = 1e30


@dataclass(frozen=True)
class Arguments:
    """Facts about a training in `mp_rank_00_model_states.pt`."""

    path: Path
    values: Mapping[str, Any]
    """Arguments by name."""
    iteration: int
    consumed_tokens: int
    entries: int | None
    """Number of entries of the tokenizer. None if the file does not state it."""

    @property
    def dtype(self) -> str:
        """Data type of the trained weights."""
        return "bfloat16" if self.values.get("bf16") else "float16" if self.values.get("fp16") else "float32"

    def network(self, keys: frozenset[str], *, layers: int, learned_rows: int | None, tied: bool) -> ModelConfig:
        """Return the section `model` of the network.

        Args:
            keys: names of the tensors in the layer of the token embedding.
            layers: number of blocks in the files.
            learned_rows: number of learned positions in the files; None if the files have none.
            tied: whether the output head is the token embedding.

        Raises:
            InputError: an argument is missing or contradicts the files, or no configuration describes the network.
        """
        for name, allowed in _CLASSIC.items():
            if (value := _plain(self.values.get(name))) not in allowed:
                raise self._error(f"the training used {name} {value!r}", f"{allowed[0]!r}; other networks are not read")
        if self.values.get("num_layers") != layers:
            raise self._error(
                f"num_layers is {self.values.get('num_layers')!r}, but the files hold {layers} blocks",
                "the files of all blocks in one folder",
            )
        positions = self._positions()
        if (positions == "learned") != (learned_rows is not None):
            raise self._error(
                f"the position encoding is {positions}, but the files "
                + ("hold learned positions" if learned_rows is not None else "hold no learned positions"),
                "arguments and files of the same training",
            )
        self._check_activation()
        self._check_embedding(keys, tied=tied)
        heads, hidden = self._number("num_attention_heads"), self._number("hidden_size")
        for name, right in (("kv_channels", hidden // max(1, heads)), ("num_key_value_heads", heads)):
            if self.values.get(name) not in (None, right):
                raise self._error(f"{name} is {self.values[name]!r}", f"{right}; other networks are not read")
        settings = {
            "layers": layers,
            "hidden_size": hidden,
            "heads": heads,
            "feed_forward_size": self.values.get("ffn_hidden_size") or 4 * hidden,
            "sequence_length": learned_rows or self._number("seq_length"),
            "positions": positions,
            "activation": "gelu",
            "tied_embeddings": tied,
            "embedding_layernorm": _EMBEDDING_NORM in keys,
            "layer_norm_epsilon": self.values.get("layernorm_epsilon", 1e-5),
            "init_std": self.values.get("init_method_std"),
        }
        if positions == "rotary":
            settings["rotary_base"] = self._rotary_base()
        if settings["feed_forward_size"] == 4 * hidden:
            del settings["feed_forward_size"]
        try:
            return ModelConfig.model_validate(settings)
        except ValidationError as error:
            raise self._error(
                f"the arguments describe no network that Bloomery supports: {wrong_values(error, ModelConfig)}",
                "the arguments of a GPT",
            ) from error

    def _positions(self) -> str:
        """Return the position encoding. Versions without the argument had learned positions."""
        if self.values.get("use_rotary_position_embeddings"):
            return "rotary"
        value = self.values.get("position_embedding_type", "absolute")
        if isinstance(value, StandIn):
            value = value.arguments[0] if value.arguments else None
        if not isinstance(value, int | str) or value not in _POSITIONS:
            raise self._error(f"position_embedding_type is {value!r}", "rotary, absolute or alibi")
        return _POSITIONS[value]

    def _check_activation(self) -> None:
        # The fused kernel and OpenAI's formula are the tanh approximation. Otherwise Megatron computes the exact GELU.
        if not (self.values.get("bias_gelu_fusion") or self.values.get("openai_gelu")):
            raise self._error(
                "the training used the exact GELU (bias_gelu_fusion and openai_gelu are off)",
                "the tanh approximation of GELU, with which BLOOM, GPT-2 and GPT-NeoX are exported",
            )

    def _check_embedding(self, keys: frozenset[str], *, tied: bool) -> None:
        """Check that the files hold an output head and a LayerNorm of the embedding if the arguments state them.

        A missing file could otherwise give another network without an error.
        """
        # The 8-bit optimizer of bitsandbytes adds this LayerNorm, too.
        has_norm = bool(self.values.get("embed_layernorm") or self.values.get("use_bnb_optimizer"))
        for name, stated, found, what in (
            ("untie_embeddings_and_output_weights", None, not tied, "output head"),
            ("embed_layernorm", has_norm, _EMBEDDING_NORM in keys, "LayerNorm of the embedding"),
        ):
            value = self.values.get(name)
            if value is not None and (bool(value) if stated is None else stated) != found:
                raise self._error(
                    f"{name} is {value!r}, but the files hold {'an extra' if found else 'no'} {what}",
                    "arguments and files of the same training",
                )

    def _rotary_base(self) -> float:
        """Return the base of the wavelengths of rotary positions."""
        stated = {name: self.values[name] for name in _ROTARY_BASES if self.values.get(name) is not None}
        for name, value in stated.items():
            if not isinstance(value, int | float) or isinstance(value, bool) or not 1 < value < _MOST_ROTARY_BASE:
                raise self._error(f"the argument {name} is {value!r}", "a number greater than 1")
        bases = {float(value) for value in stated.values()} or {_ROTARY_BASE}
        if len(bases) > 1:
            raise self._error(f"the arguments state two bases of the rotary positions: {stated}", "one base")
        return bases.pop()

    def _number(self, name: str) -> int:
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise self._error(f"the argument {name} is {value!r}", "a positive number")
        return value

    def _error(self, what: str, expected: str) -> InputError:
        return InputError(what, where=str(self.path), expected=expected)


def read_arguments(folder: Path) -> Arguments:
    """Read the arguments of the training from the checkpoint `folder`.

    Raises:
        InputError: the file is missing or damaged, has no arguments, or orders queries, keys and values as Megatron did
            before version 2.
    """
    import torch

    path = folder / ARGUMENTS_FILE
    if not path.is_file():
        raise InputError(
            "the checkpoint lacks the file with the arguments of its training",
            where=str(path),
            expected="this file, which DeepSpeed saves beside the layer files; copy it into the folder",
        )
    state = open_pickle(path)
    arguments = state.get("args")
    values = arguments.values if isinstance(arguments, StandIn) else arguments
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise InputError(
            "the file holds no arguments of Megatron (args)",
            where=str(path),
            expected="a checkpoint of Megatron-DeepSpeed; export a checkpoint of Bloomery with `bloomery export model`",
        )
    wrong = [name for name, value in values.items() if isinstance(value, torch.Tensor)]
    if wrong:
        raise InputError(
            f"the argument {wrong[0]} is a tensor", where=str(path), expected="arguments of Megatron as plain values"
        )
    version = state.get("checkpoint_version", 0)
    if not isinstance(version, int | float) or version < 2:
        raise InputError(
            f"the checkpoint has version {version!r}, which orders queries, keys and values differently",
            where=str(path),
            expected="checkpoint_version 2.0 or later; load and save the checkpoint with a later Megatron",
        )
    info = state.get("checkpoint_info") or state.get("universal_checkpoint_info")
    entries = info.get("original_vocab_size") if isinstance(info, dict) else None
    return Arguments(
        path=path,
        values=values,
        iteration=_count(state.get("iteration")),
        consumed_tokens=_count(state.get("tokens", values.get("consumed_train_tokens"))),
        entries=_count(entries) or None,
    )


def _plain(value: Any) -> Any:
    """Return the number in a list of one number, such as [1] for one expert in each layer, or `value` itself."""
    is_one = isinstance(value, list) and len(value) == 1 and isinstance(value[0], int)
    return value[0] if is_one else value


def _count(value: Any) -> int:
    """Return a count that a file states. Return 0 if the file states none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
