"""Write the tokenizer of an imported model: tokenizer.json byte for byte, and the roles of its special tokens."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_bytes
from bloomery.base.errors import InputError
from bloomery.contracts.tokenizer import (
    ROLES,
    TOKENIZER,
    adds_prefix_space,
    load_tokenizer,
    special_tokens,
    vocabulary_size,
    write_companions,
)
from bloomery.orchestration.tokenizer_origin import find_tokenizer


def copy_tokenizer(name: str, folder: Path, config: Any, rows: int) -> int:
    """Write the tokenizer `name` to the new folder `folder`, and return its number of entries.

    Args:
        name: a folder, a tokenizer.json, or a Hub repository.
        folder: folder to write to.
        config: configuration of the model in transformers. It gives the roles that the tokenizer's files do not state.
        rows: number of rows of the model's embedding.

    Raises:
        InputError: there is no tokenizer.json, or it has more entries than the embedding has rows.
        ConfigError, TryAgainError: the Hub cannot be reached.
    """
    try:
        origin = find_tokenizer(name)
    except InputError as error:
        expected = f"{error.expected}; or the option --tokenizer with another place of this model's tokenizer"
        raise InputError(error.what, where=error.where, expected=expected) from error
    with tempfile.TemporaryDirectory(prefix="bloomery-tokenizer-") as place:
        for file, content in origin.files.items():
            (Path(place) / file).write_bytes(content)
        try:
            tokenizer = load_tokenizer(Path(place) / TOKENIZER)
            roles = special_tokens(Path(place))
        except InputError as error:  # Report `name`; the path of the temporary folder would not help the user.
            raise InputError(error.what, where=name, expected=error.expected) from error
    entries = vocabulary_size(tokenizer)
    if entries > rows:
        raise InputError(
            f"the tokenizer has {entries} entries, but the embedding of the model has {rows} rows",
            where=name,
            expected="the tokenizer that the model was trained with (--tokenizer)",
        )
    for role in ("bos", "eos", "pad"):
        number = getattr(config, f"{role}_token_id", None)
        if role not in roles and isinstance(number, int) and (text := tokenizer.id_to_token(number)) is not None:
            roles[role] = text
    roles = {role: text for role, text in roles.items() if role in ROLES and tokenizer.token_to_id(text) is not None}
    folder.mkdir(parents=True)
    write_companions(folder, roles, prefix_space=adds_prefix_space(json.loads(origin.files[TOKENIZER])))
    write_bytes(folder / TOKENIZER, origin.files[TOKENIZER])
    return entries
