"""Write the folder that `AutoTokenizer.from_pretrained` loads, with a file that records the tokenizer's origin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_bytes, write_json
from bloomery.contracts.tokenizer import TOKENIZER, write_companions

TRAINING, ORIGIN = "training.json", "origin.json"
"""Files that record how a tokenizer was trained and where an imported one came from. A folder has one of the two."""


def write_folder(
    folder: Path, tokenizer: bytes, roles: Mapping[str, str], history: str, facts: Any, *, prefix_space: bool = False
) -> None:
    """Write all files to `folder`, `tokenizer.json` last.

    Args:
        folder: folder to write to.
        tokenizer: content of `tokenizer.json`.
        roles: text of the special token per role (`bos`, `eos`, ...).
        history: name of the file that records the origin, `TRAINING` or `ORIGIN`.
        facts: content of the `history` file.
        prefix_space: whether the pre-tokenizer adds a space before a text. It goes into `tokenizer_config.json`,
            because transformers overwrites the pre-tokenizer's own setting with the value there.
    """
    other = ORIGIN if history == TRAINING else TRAINING
    (folder / other).unlink(missing_ok=True)
    write_json(folder / history, facts)
    write_companions(folder, roles, prefix_space=prefix_space)
    write_bytes(folder / TOKENIZER, tokenizer)
