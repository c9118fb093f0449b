"""Read which network a transformers folder contains, from its config.json.

The class of transformers fills in the defaults and translates old names of keys. A key that config.json leaves out
therefore has the value that transformers would use. The table of the family then decides whether the training computes
exactly this network.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values
from bloomery.config.model import ModelConfig
from bloomery.contracts.remote_code import refuse_remote_code
from bloomery.spec.transformers_families.choose import FAMILIES
from bloomery.spec.transformers_families.family import Family

CONFIG_NAME = "config.json"
_FAMILIES = ", ".join(f"{family.model_type!r} ({family.title})" for family in FAMILIES)
_IGNORED = ("attn_implementation", "dtype", "experts_implementation", "name_or_path", "torch_dtype")
"""Keys that select how transformers computes, or that state where the model came from. The data type is that of the
weights in their files."""
_COMPUTED = "a model that Bloomery computes exactly"


@dataclass(frozen=True)
class Network:
    """The network of a transformers folder."""

    family: Family
    model: ModelConfig
    """Section `model` of this network, without keys for the rows of the embedding."""
    rows: int
    """Number of rows of the embedding in the folder (`vocab_size`)."""
    config: Any
    """Configuration of the model in transformers."""
    dropout: dict[str, float]
    """Keys of config.json that state a dropout above 0. A training uses `training.dropout` instead."""


def read_network(folder: Path) -> Network:
    """Read the network of the transformers model in `folder`.

    Raises:
        InputError: config.json is missing or damaged, names Python code to run, or describes a network that the
            training does not compute exactly. The error names the key.
    """
    path = folder / CONFIG_NAME
    if not folder.is_dir():
        raise InputError("no such folder", where=str(folder), expected="a folder that `save_pretrained` wrote")
    values = read_json(path, any_integer=True)
    if not isinstance(values, dict):
        raise InputError("not a JSON object", where=str(path), expected="config.json as transformers writes it")
    refuse_remote_code(path)
    if values.get("quantization_config") is not None:
        raise InputError(
            "the weights are quantized",
            where=f"{path}: quantization_config",
            expected="the folder of the model before it was quantized",
        )
    family = _family(values, path)
    config = _transformers_config(family, values, path)
    dropout = _check_fixed(family, config, path)
    return Network(family, _model(family, config, path), _rows(config, path), config, dropout)


def _family(values: dict[str, Any], path: Path) -> Family:
    found = next((family for family in FAMILIES if family.model_type == values.get("model_type")), None)
    if found is None:
        raise InputError(
            f"model_type is {values.get('model_type')!r}",
            where=str(path),
            expected=f"a model of one of these types: {_FAMILIES}",
        )
    return found


def _transformers_config(family: Family, values: dict[str, Any], path: Path) -> Any:
    """Return the configuration as the class of transformers reads it."""
    import transformers

    # Keys such as `_attn_implementation` can make transformers load kernels from a Hub.
    values = {key: value for key, value in values.items() if not key.startswith("_") and key not in _IGNORED}
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)  # Warnings about token ids and old keys would precede our own messages.
    try:
        return getattr(transformers, family.config_class)(**values)
    except Exception as error:  # transformers raises errors of many types for wrong values
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"transformers cannot read this configuration: {reason}",
            where=str(path),
            expected=f"values that {family.config_class} accepts",
        ) from error
    finally:
        logger.setLevel(level)


def _check_fixed(family: Family, config: Any, path: Path) -> dict[str, float]:
    """Check the values that every network of the family must have. Return the values of dropout above 0.

    Raises:
        InputError: a value differs.
    """
    dropout: dict[str, float] = {}
    for key, value in family.fixed.items():
        found: Any = getattr(config, key, None)
        if found == value:
            continue
        if key.endswith(("dropout", "pdrop")):
            if not isinstance(found, int | float) or not 0 <= found <= 1:
                raise InputError(f"{key} is {found!r}", where=str(path), expected="a probability from 0 to 1")
            dropout[key] = float(found)
            continue
        raise _other_network(f"{key} is {found!r}", path, f"{key} {value!r}")
    return dropout


def _model(family: Family, config: Any, path: Path) -> ModelConfig:
    """Return the section `model` of the network.

    Raises:
        InputError: a size is missing or wrong, or the values of config.json have no exact counterpart in Bloomery.
    """
    _check_exact(family, config, path)
    values = config.to_dict()
    try:
        keys = {**family.required, **family.model(values), "tied_embeddings": bool(config.tie_word_embeddings)}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the value of {error} is missing or has the wrong type", where=str(path), expected="sizes of the network"
        ) from error
    # BLOOM computes its feed-forward size, and the default is the same.
    if keys.get("feed_forward_size") == 4 * keys["hidden_size"]:
        del keys["feed_forward_size"]
    deviation = getattr(config, "initializer_range", None)
    if isinstance(deviation, float) and deviation > 0:
        keys["init_std"] = deviation
    try:
        return ModelConfig.model_validate(keys)
    except ValidationError as error:
        raise InputError(
            f"the sizes are not those of a network: {wrong_values(error, ModelConfig)}",
            where=str(path),
            expected="sizes of a network that Bloomery can train",
        ) from error


def _check_exact(family: Family, config: Any, path: Path) -> None:
    """Check the values that have no key of their own in the section `model`."""
    if family.model_type == "gpt_neox":
        rope = config.rope_parameters
        for key, right in (("rope_type", "default"), ("partial_rotary_factor", 1.0)):
            if rope.get(key) != right:
                raise _other_network(f"rope_parameters.{key} is {rope.get(key)!r}", path, f"{right!r}")
    inner = getattr(config, "n_inner", None)
    if family.needs_4h and inner not in (None, 4 * config.hidden_size):
        raise _other_network(f"n_inner is {inner!r}", path, f"null or {4 * config.hidden_size}")


def _other_network(what: str, path: Path, right: str) -> InputError:
    return InputError(
        f"{what}, so Bloomery cannot train this network exactly", where=str(path), expected=f"{right}; {_COMPUTED}"
    )


def _rows(config: Any, path: Path) -> int:
    rows = config.vocab_size
    if not isinstance(rows, int) or isinstance(rows, bool) or rows <= 0:
        raise InputError(f"vocab_size is {rows!r}", where=str(path), expected="the number of rows of the embedding")
    return rows
