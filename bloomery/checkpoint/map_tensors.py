"""Copy nested containers of tensors so that equal states give files of `torch.save` with equal bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from enum import Enum
from typing import Any

import torch


def map_tensors(value: Any, tensor: Any, other: Any) -> Any:
    """Return a copy of nested containers, with `tensor(value)` for each tensor and `other(value)` for each other value.

    An Enum member becomes its plain value.

    Equal states give equal copies, whose files have equal bytes. So a resumed training saves the same bytes as an
    undisturbed one. Keys of a plain dict are sorted, because an optimizer that was loaded has added them in another
    order. Equal strings become the same object, because pickle writes an object only once. The order of an OrderedDict
    is kept, because DeepSpeed's tools rely on it.
    """
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, dict):
        keys = list(value) if isinstance(value, OrderedDict) else _sorted(value)
        items = ((_shared(key), map_tensors(value[key], tensor, other)) for key in keys)
        return OrderedDict(items) if isinstance(value, OrderedDict) else dict(items)
    if isinstance(value, list):
        return [map_tensors(each, tensor, other) for each in value]
    if type(value) is tuple:
        return tuple(map_tensors(each, tensor, other) for each in value)
    if isinstance(value, Enum):
        # Before Python 3.11.4 an Enum member is pickled as a call of getattr, which a safe unpickler rejects.
        return _shared(value.value)
    return _shared(value) if type(value) is str else other(value)


def _shared(value: Any) -> Any:
    """Return the same object for all equal strings. Return other values unchanged."""
    return sys.intern(value) if type(value) is str else value


def _sorted(value: dict[Any, Any]) -> list[Any]:
    """Return the keys of a dict in ascending order. If they are not all strings or all integers, keep their order."""
    kinds = {type(key) for key in value}
    return sorted(value) if kinds in ({str}, {int}) else list(value)
