"""Define the table of a transformers family: which networks it computes exactly, its names, transforms and config.json.

A table has no code that needs torch or transformers, so `bloomery config check` reads it without importing them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.spec.placement import Parameter

_BLOCK = re.compile(r"(?<![^.])h\.(\d+)\.")
"""Number of a block in a canonical name, such as `h.12.mlp.dense_h_to_4h.bias`."""

HEAD = "lm_head.weight"
"""Canonical name of the output head's matrix. Transformers uses the same name in every family."""


class Transform(StrEnum):
    """Change of a tensor between the training and transformers. Every transform only moves elements."""

    NONE = "none"
    """Both tensors are equal."""
    TRANSPOSE = "transpose"
    """Transformers holds the transposed matrix (its class `Conv1D`)."""
    SPLIT_HEADS = "split_heads"
    """The training orders the query-key-value elements of dimension 0 [head, (q, k, v), head_dim], and transformers
    orders them [(q, k, v), head, head_dim]."""
    SPLIT_HEADS_TRANSPOSE = "split_heads_transpose"
    """`SPLIT_HEADS`, followed by `TRANSPOSE`."""


@dataclass(frozen=True)
class Target:
    """Place of a parameter in transformers."""

    name: str
    """Name in transformers. `{block}` stands for the number of a block."""
    transform: Transform = Transform.NONE

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape in transformers of a parameter that has `shape` in the training."""
        transposed = self.transform in (Transform.TRANSPOSE, Transform.SPLIT_HEADS_TRANSPOSE)
        return shape[::-1] if transposed else shape


@dataclass(frozen=True)
class Family:
    """Table of one family: all facts about a class of transformers that the export and the import use.

    The split rule of each parameter is its placement (`bloomery.spec.placement`), which all families share.
    """

    title: str
    """Name of the family for users, such as `GPT-2`."""
    architecture: str
    """Class in transformers, such as `GPT2LMHeadModel`."""
    config_class: str
    """Class of the configuration in transformers, such as `GPT2Config`."""
    model_type: str
    """Value of `model_type` in config.json."""
    required: Mapping[str, object]
    """Values that the keys of the section `model` must have."""
    targets: Mapping[str, Target]
    """Place in transformers of each parameter, by its canonical name with `{block}` for the number of a block."""
    blocks: str
    """Path of the list of blocks in the transformers model."""
    config: Callable[[ModelConfig], dict[str, Any]]
    """Function that returns the values of config.json that the network determines."""
    fixed: Mapping[str, object]
    """Values that config.json must have. The export writes them. The import refuses a model with other values."""
    model: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Function that returns the keys of the section `model` from the values of config.json."""
    needs_4h: bool = False
    """Whether the feed-forward width must be 4 x hidden_size."""
    buffers: tuple[str, ...] = ()
    """Suffixes of the names of tensors in old weight files that are not weights, such as masks."""

    saved_head: str = HEAD
    """Name of the output head's matrix in weight files. Transformers renames it when it loads or saves a model."""

    @property
    def reorders(self) -> bool:
        """Whether transformers holds the elements of some tensors in another order than the training."""
        return any(target.transform is not Transform.NONE for target in self.targets.values())

    def saved_name(self, name: str) -> str:
        """Return the name in weight files of a tensor that has the name `name` in transformers."""
        return self.saved_head if name == HEAD else name

    def loaded_name(self, name: str) -> str:
        """Return the name in transformers of a tensor in weight files. This is the inverse of `saved_name`.

        A folder of the class without a head has names without the prefix of the family.
        """
        if name in (HEAD, self.saved_head):
            return HEAD
        return name if name.startswith(self.prefix) else self.prefix + name

    @property
    def prefix(self) -> str:
        """Beginning of the names of all tensors except the head's. A folder of the class without a head, such as
        `BloomModel`, has the same names without it."""
        return self.blocks.partition(".")[0] + "."

    def target(self, parameter: Parameter) -> Target:
        """Return the place of a declared parameter in transformers, with the block's number filled in.

        Raises:
            KeyError: the table lacks the parameter.
        """
        name = parameter.name
        match = _BLOCK.search(name)
        if match is None:
            return self.targets[name]
        found = self.targets[_BLOCK.sub("h.{block}.", name, count=1)]
        return Target(found.name.replace("{block}", match.group(1)), found.transform)

    def lacks(self, model: ModelConfig) -> dict[str, object]:
        """Return the keys of the section `model` whose values this family does not compute, with the right values."""
        wrong = {key: value for key, value in self.required.items() if getattr(model, key) != value}
        if self.needs_4h and model.ffn_size != 4 * model.hidden_size:
            wrong["feed_forward_size"] = 4 * model.hidden_size
        return wrong


def both(
    ours: str, theirs: str, weight: Transform = Transform.NONE, bias: Transform = Transform.NONE
) -> dict[str, Target]:
    """Return the entries of the weight and the bias of a module."""
    return {
        f"{ours}.weight": Target(f"{theirs}.weight", weight),
        f"{ours}.bias": Target(f"{theirs}.bias", bias),
    }
