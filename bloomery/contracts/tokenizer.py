"""The tokenizer's folder: `tokenizer.json`, and beside it the two files that say which of its tokens has which role.

A tokenizer is trained here or comes from elsewhere, so nothing may be taken for granted of it: its end of document has
the name that the folder gives it, and its ids may have holes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError

TOKENIZER, CONFIG, SPECIAL = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
FILES = (TOKENIZER, CONFIG, SPECIAL)
"""Every file of the folder that is read after it was made."""


def tokenizer_file(place: Path) -> Path:
    """The `tokenizer.json` that a person means: the file itself, or the folder that it lies in."""
    return place / TOKENIZER if place.is_dir() else place


def load_tokenizer(path: Path) -> Any:
    """The `tokenizers.Tokenizer` in the file `path`, encoding whole texts and the same ones alike.

    Whatever the file says, it neither truncates nor pads, and a BPE drops no merge by chance.
    Raises InputError when the file is missing or damaged.
    """
    from tokenizers import Tokenizer

    if not path.is_file():
        raise InputError("no such file", where=str(path), expected=f"a {TOKENIZER}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for a file it cannot read
        raise InputError(f"not a tokenizer ({error})", where=str(path), expected=f"a {TOKENIZER}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if getattr(tokenizer.model, "dropout", None):
        tokenizer.model.dropout = None
    return tokenizer


def vocabulary_size(tokenizer: Any) -> int:
    """Greatest id + 1, added tokens counted: more than its tokens where ids have holes."""
    return 1 + max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)


def special_tokens(folder: Path) -> dict[str, str]:
    """Text per role (`bos`, `eos`, `pad`, `unk`, ...) by tokenizer_config.json, else by special_tokens_map.json.

    Raises InputError for a damaged file.
    """
    found: dict[str, str] = {}
    for name in (SPECIAL, CONFIG):
        values = read_json(folder / name) if (folder / name).is_file() else {}
        if not isinstance(values, dict):
            raise InputError("not a JSON object", where=str(folder / name), expected="roles of special tokens")
        for key, value in values.items():
            text = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(text, str):
                found[key.removesuffix("_token")] = text
    return found


def end_of_document(path: Path, tokenizer: Any) -> int:
    """Id of the token that ends every document: the `eos` of the folder of `path`, a tokenizer.json.

    Raises:
        InputError: the folder names none, or one that the tokenizer lacks.
    """
    text = special_tokens(path.parent).get("eos")
    where = str(path.with_name(CONFIG))
    if text is None:
        raise InputError("names no eos_token", where=where, expected="the token that ends a document")
    number = tokenizer.token_to_id(text)
    if number is None:
        raise InputError(f"its eos_token {text!r} is not in {TOKENIZER}", where=where, expected="one of its tokens")
    return int(number)
