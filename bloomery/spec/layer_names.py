"""Name the layers of a network in logs and figures."""

from __future__ import annotations

import re

from bloomery.spec.placement import Parameter

_BLOCK = re.compile(r"h\.(\d+)\.")


def layer_name(parameter: Parameter) -> str:
    """Return the name of the layer of a GPT's parameter: `embedding`, `block 0`, ..., `final norm` or `head`."""
    if block := _BLOCK.match(parameter.name):
        return f"block {block[1]}"
    if parameter.name.startswith("ln_f."):
        return "final norm"
    return "head" if parameter.name.startswith("lm_head.") else "embedding"
