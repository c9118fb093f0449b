"""Make tiny folders of transformers models, to be imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from fabricated_export import make_tokenizer, random_model

from bloomery.config.model import ModelConfig

NETWORKS: dict[str, dict[str, Any]] = {
    "bloom": {},
    "gpt2": {"positions": "learned", "embedding_layernorm": False, "feed_forward_size": 96},
    "gpt_neox": {"positions": "rotary", "embedding_layernorm": False, "rotary_base": 5000.0, "feed_forward_size": 192},
}
"""Keys of the section `model` of a network of each family, by the type of the model in transformers."""


def make_source(
    folder: Path, kind: str = "bloom", *, rows: int = 301, dtype: str = "bfloat16", save: bool = True, **keys: Any
) -> Any:
    """Save a random model with its tokenizer in `folder`, and return the model. It has 48 heads of 2 features.

    Args:
        folder: new folder.
        kind: type of the model in transformers.
        rows: rows of the embedding. The tokenizer has 290 entries.
        dtype: data type of the weights.
        save: whether to save the weights.
        keys: further keys of the section `model`.
    """
    shape = {"layers": 4, "hidden_size": 96, "heads": 48, "sequence_length": 32}
    model = ModelConfig.model_validate(shape | NETWORKS[kind] | keys)
    whole = random_model(model, rows, getattr(torch, dtype)).to(getattr(torch, dtype))
    whole.config.eos_token_id = whole.config.bos_token_id = 2
    folder.mkdir(parents=True)
    if save:
        whole.save_pretrained(folder)
    else:
        whole.config.save_pretrained(folder)
    make_tokenizer(folder)
    return whole
