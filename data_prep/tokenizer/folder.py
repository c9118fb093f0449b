"""Writes the folder that `AutoTokenizer.from_pretrained` loads, and beside it where the tokenizer is from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_bytes, write_json
from bloomery.contracts.tokenizer import CONFIG, SPECIAL, TOKENIZER

TRAINING, ORIGIN = "training.json", "origin.json"
"""What a trained tokenizer was made of; where an existing one came from. A folder has one of the two."""


def write_folder(
    folder: Path, tokenizer: bytes, roles: Mapping[str, str], history: str, facts: Any, *, prefix_space: bool = False
) -> None:
    """Write all files, `tokenizer.json` last.

    Args:
        folder: to write to.
        tokenizer: content of `tokenizer.json`.
        roles: text of the special token per role (`bos`, `eos`, ...).
        history: `TRAINING` or `ORIGIN`, with the content `facts`.
        prefix_space: whether the pre-tokenizer puts a space in front: transformers overwrites it with this.
    """
    specials = {f"{role}_token": text for role, text in roles.items()}
    other = ORIGIN if history == TRAINING else TRAINING
    (folder / other).unlink(missing_ok=True)
    write_json(folder / history, facts)
    write_json(folder / SPECIAL, specials)
    write_json(
        folder / CONFIG,
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_prefix_space": prefix_space,
            "clean_up_tokenization_spaces": False,
            **specials,
        },
    )
    write_bytes(folder / TOKENIZER, tokenizer)
