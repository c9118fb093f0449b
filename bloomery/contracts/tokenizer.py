"""Read the tokenizer's folder: `tokenizer.json` and the two files that assign roles to its tokens.

A tokenizer is trained here or imported, so nothing is assumed about it. The folder states the name of the
end-of-document token, and the ids of the tokens may have gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError

TOKENIZER, CONFIG, SPECIAL = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
FILES = (TOKENIZER, CONFIG, SPECIAL)
"""Every file of the folder that is read after the tokenizer was made."""
ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")
"""Roles of special tokens that an imported tokenizer keeps."""


def tokenizer_file(place: Path) -> Path:
    """Return the `tokenizer.json` that a user's path means: the file itself, or the file in that folder."""
    return place / TOKENIZER if place.is_dir() else place


def tokenizer_files(place: Path) -> dict[str, Path]:
    """Return the existing files of a tokenizer, by the name that each has in a tokenizer's folder.

    `place` is a folder, or a file with the content of a tokenizer.json and any name.
    """
    if place.is_file():
        files = {TOKENIZER: place} | {name: place.with_name(name) for name in (CONFIG, SPECIAL)}
    else:
        files = {name: place / name for name in FILES}
    return {name: file for name, file in files.items() if file.is_file()}


def load_tokenizer(path: Path) -> Any:
    """Return the `tokenizers.Tokenizer` in the file `path`, set to encode whole texts deterministically.

    Truncation, padding and BPE dropout are turned off, whatever the file contains.

    Raises:
        InputError: the file is missing or damaged.
    """
    from tokenizers import Tokenizer

    if not path.is_file():
        raise InputError("no such file", where=str(path), expected=f"an existing {TOKENIZER}; check the path")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises a bare Exception for a file that it cannot read.
        expected = f"a complete {TOKENIZER} that the library `tokenizers` can load; copy or train it again"
        raise InputError(
            "not a tokenizer: the file is damaged or has another format", where=str(path), expected=expected
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if getattr(tokenizer.model, "dropout", None):
        tokenizer.model.dropout = None
    return tokenizer


def vocabulary_size(tokenizer: Any) -> int:
    """Return the largest id + 1, including added tokens. If ids have gaps, this exceeds the number of tokens."""
    return 1 + max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)


def special_tokens(folder: Path) -> dict[str, str]:
    """Return the text of the token for each role (`bos`, `eos`, `pad`, `unk`, ...).

    tokenizer_config.json takes precedence over special_tokens_map.json.

    Raises:
        InputError: a file is damaged.
    """
    found: dict[str, str] = {}
    for name in (SPECIAL, CONFIG):
        values = read_json(folder / name, any_integer=True) if (folder / name).is_file() else {}
        if not isinstance(values, dict):
            raise InputError(
                "not a JSON object",
                where=str(folder / name),
                expected='a JSON object that names the special tokens, such as {"eos_token": "</s>"}',
            )
        for key, value in values.items():
            text = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(text, str):
                found[key.removesuffix("_token")] = text
    return found


def write_companions(folder: Path, roles: Mapping[str, str], *, prefix_space: bool = False) -> None:
    """Write the two files beside tokenizer.json that `AutoTokenizer.from_pretrained` reads.

    Args:
        folder: folder of the tokenizer.
        roles: text of the special token per role (`bos`, `eos`, ...).
        prefix_space: whether the pre-tokenizer adds a space before a text. transformers overwrites the pre-tokenizer's
            own setting with this value.
    """
    specials = {f"{role}_token": text for role, text in roles.items()}
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


def adds_prefix_space(own: Mapping[str, Any]) -> bool:
    """Return whether the pre-tokenizer in the content `own` of a tokenizer.json adds a space before a text."""
    return bool((own.get("pre_tokenizer") or {}).get("add_prefix_space"))


def end_of_document(path: Path, tokenizer: Any) -> int:
    """Return the id of the token that ends every document: the `eos` token of the folder that contains `path`.

    Raises:
        InputError: the folder does not name such a token, or the tokenizer does not contain it.
    """
    text = special_tokens(path.parent).get("eos")
    where = str(path.with_name(CONFIG))
    if text is None:
        raise InputError(
            "the file does not define eos_token",
            where=where,
            expected='an entry for the token that ends a document, such as "eos_token": "</s>"',
        )
    number = tokenizer.token_to_id(text)
    if number is None:
        raise InputError(
            f"the eos_token {text!r} is not in {TOKENIZER}",
            where=where,
            expected=f"a token of the {TOKENIZER} in the same folder",
        )
    return int(number)
