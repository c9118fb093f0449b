"""Find the layer and the name of each parameter in a checkpoint of Megatron-DeepSpeed.

Layers are recognised by the tensors that they hold, because their numbers differ between versions. In bigscience's fork
the embedding is layer 1, the blocks begin with layer 3, and the final LayerNorm is layer L + 4. Layers are sorted by
number, because sorting their names as text would put layer 100 before layer 20.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.errors import InputError

if TYPE_CHECKING:
    from bloomery.spec.placement import Parameter

WORDS, POSITIONS, HEAD = "word_embeddings.weight", "position_embeddings.weight", "lm_head.weight"
_EMBEDDING = {WORDS, POSITIONS, "word_embeddings.norm.weight", "word_embeddings.norm.bias"}
_FINAL_NORM = {"weight", "bias"}
_BLOCK = "self_attention."
IGNORED = ("self_attention.rotary_emb.inv_freq", "self_attention.core_attention.rotary_emb.inv_freq")
"""Tensors that are computed from the configuration."""


@dataclass(frozen=True)
class Places:
    """The layers of a checkpoint by role."""

    embedding: int
    blocks: tuple[int, ...]
    final_norm: int
    head: int | None
    """None if the head is the token embedding."""
    keys: Mapping[int, frozenset[str]]
    """Names of the tensors in each layer."""

    @property
    def embedding_keys(self) -> frozenset[str]:
        """Names of the tensors in the embedding's layer."""
        return self.keys[self.embedding]

    def of(self, parameter: Parameter) -> tuple[int, str]:
        """Return the layer that holds a declared parameter, and the parameter's name there."""
        name = parameter.name
        if name.startswith("h."):
            return self.blocks[int(name.split(".")[1])], parameter.local_name
        if name.startswith("ln_f."):
            return self.final_norm, parameter.local_name
        if name == HEAD:
            assert self.head is not None, "the network has a separate head only if the files have one"
            return self.head, HEAD
        return self.embedding, name.replace("word_embeddings_layernorm.", "word_embeddings.norm.")


def find_places(layers: Mapping[int, Set[str]], where: str) -> Places:
    """Find the role of each layer from the names of its tensors. A layer of tied tensors may have a negative number.

    Raises:
        InputError: a layer is unknown, or there is not exactly one embedding and one final LayerNorm.
    """
    keys = {number: frozenset(layers[number]) - set(IGNORED) for number in sorted(layers)}
    found: dict[str, list[int]] = {"token embedding": [], "block": [], "final LayerNorm": [], "output head": []}
    for number, names in keys.items():
        if names >= {WORDS} and names <= _EMBEDDING:
            role = "token embedding"
        elif any(name.startswith(_BLOCK) for name in names):
            role = "block"
        elif names == _FINAL_NORM:
            role = "final LayerNorm"
        elif names == {HEAD}:
            role = "output head"
        else:
            layer = f"layer {number}" if number >= 0 else "the tied layer"
            raise InputError(
                f"{layer} holds the tensors {', '.join(sorted(names)[:5])}",
                where=where,
                expected="the layers of a GPT of Megatron-DeepSpeed: a token embedding, blocks, a final LayerNorm",
            )
        found[role].append(number)
    embeddings, blocks, norms, heads = found.values()
    if len(embeddings) != 1 or len(norms) != 1 or len(heads) > 1 or not blocks:
        counts = ", ".join(f"{role}: {len(numbers)}" for role, numbers in found.items())
        raise InputError(
            f"the layers have these roles: {counts}",
            where=where,
            expected="one token embedding, at least one block, one final LayerNorm and at most one output head; copy "
            "all files of the checkpoint",
        )
    return Places(embeddings[0], tuple(blocks), norms[0], heads[0] if heads else None, keys)
