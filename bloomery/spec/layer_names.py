"""Name the layers of a network in logs and figures."""

from __future__ import annotations

import re

from bloomery.spec.placement import Parameter

_BLOCK = re.compile(r"(?:h|(encoder|decoder))\.(\d+)\.")


def layer_name(parameter: Parameter) -> str:
    """Return the name of a parameter's layer: `embedding`, `block 0`, ..., `final norm` or `head`.

    The blocks of T5 are `encoder block 0`, ..., and its final norms are `encoder norm` and `decoder norm`.
    """
    if block := _BLOCK.match(parameter.name):
        return f"{block[1]} block {block[2]}" if block[1] else f"block {block[2]}"
    part = parameter.name.split(".")[0]
    if part in ("encoder", "decoder"):
        return f"{part} norm"
    if part == "ln_f":
        return "final norm"
    return "embedding" if "embeddings" in part else "head"
