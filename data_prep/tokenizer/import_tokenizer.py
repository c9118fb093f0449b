"""Import an existing tokenizer instead of training one, and record its source in origin.json.

`tokenizer.json` is copied byte for byte. The two companion files are rewritten and hold only the roles of the special
tokens. Other content of these files is not copied: a custom class, for example, could make `AutoTokenizer` encode text
differently from the library `tokenizers`, which Bloomery uses.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.contracts.tokenizer import (
    ROLES,
    TOKENIZER,
    adds_prefix_space,
    load_tokenizer,
    special_tokens,
    vocabulary_size,
)
from bloomery.orchestration.tokenizer_origin import find_tokenizer
from data_prep.tokenizer.folder import ORIGIN, write_folder
from data_prep.tokenizer.lossy_text import HOSTILE, lossy_kinds, suspects

_NAMED = 8


def import_tokenizer(
    name: str, folder: Path, *, end_of_document: str | None = None, most_entries: int | None = None
) -> dict[str, Any]:
    """Write tokenizer.json, its two companion files and origin.json to `folder`; return the content of origin.json.

    Args:
        name: a folder, a tokenizer.json file, or a Hub repository (`owner/name[@revision]`).
        folder: folder to write to.
        end_of_document: token that ends a document. None for the tokenizer's eos_token.
        most_entries: maximum number of entries of the tokenizer, which `bloomery plan` assumes. None for no limit.

    Raises:
        InputError: if `name` does not exist or is not a tokenizer, if the tokenizer has no end-of-document token, or
            if it has more than `most_entries` entries.
        ConfigError, TryAgainError: if the Hub cannot be reached.
    """
    origin = find_tokenizer(name)
    with tempfile.TemporaryDirectory(prefix="bloomery-tokenizer-") as place:
        for file, content in origin.files.items():
            (Path(place) / file).write_bytes(content)
        try:
            tokenizer = load_tokenizer(Path(place) / TOKENIZER)
            roles = special_tokens(Path(place))
        except InputError as error:  # Report `name`; the path of the temporary folder would not help the user.
            raise InputError(error.what, where=name, expected=error.expected) from error
    roles = {role: text for role, text in roles.items() if role in ROLES and tokenizer.token_to_id(text) is not None}
    roles["eos"] = _end_of_document(name, tokenizer, roles, end_of_document)
    size, added = vocabulary_size(tokenizer), tokenizer.get_added_tokens_decoder()
    if most_entries is not None and size > most_entries:
        raise InputError(
            f"the tokenizer has {size} entries, but tokenizer.vocabulary_size allows only {most_entries}",
            where=name,
            expected=f"tokenizer.vocabulary_size: {size}",
        )
    own = json.loads(origin.files[TOKENIZER])
    tokenizer.encode_special_tokens = True
    warnings = _warnings(tokenizer, own, size, roles["eos"])
    for warning in warnings:
        say(f"warning: {name}: {warning}")
    facts = {
        "name": origin.name,
        "endpoint": origin.endpoint,
        "repository": origin.repository,
        "commit": origin.commit,
        "files": {file: hashlib.sha256(content).hexdigest() for file, content in sorted(origin.files.items())},
        "vocabulary": size,
        "tokens": tokenizer.get_vocab_size(with_added_tokens=True),
        "added_tokens": len(added),
        "added_tokens_beyond_model": sum(1 for number in added if number >= len(tokenizer.get_vocab(False))),
        "end_of_document": {"token": roles["eos"], "id": tokenizer.token_to_id(roles["eos"])},
        "warnings": warnings,
    }
    write_folder(folder, origin.files[TOKENIZER], roles, ORIGIN, facts, prefix_space=adds_prefix_space(own))
    at = f" at {origin.commit}" if origin.commit else ""
    say(f"imported {name}{at}: {size} entries; each document ends with the token {roles['eos']!r}")
    return facts


def _end_of_document(name: str, tokenizer: Any, roles: dict[str, str], asked: str | None) -> str:
    """Return the token that ends a document: `asked` if it is given, otherwise the tokenizer's eos_token.

    Raises InputError if the tokenizer has no token `asked`, or if `asked` is None and the tokenizer has no eos_token.
    """
    known = sorted({*roles.values(), *(token.content for token in tokenizer.get_added_tokens_decoder().values())})
    some = ", ".join(known[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
    if asked is not None:
        if tokenizer.token_to_id(asked) is None:
            raise InputError(
                f"the tokenizer has no token {asked!r}",
                where=name,
                expected="a token of this tokenizer for --end-of-document (tokenizer.end_of_document); the tokenizer's "
                f"special tokens are: {some or 'none'}",
            )
        return asked
    if "eos" not in roles:
        raise InputError(
            "the tokenizer does not state an eos_token, so it is unknown which token ends a document",
            where=name,
            expected="--end-of-document TOKEN (tokenizer.end_of_document in a configuration)"
            + (f" with a token such as {some}" if known else ""),
        )
    return roles["eos"]


def _warnings(tokenizer: Any, own: dict[str, Any], size: int, end: str) -> list[str]:
    found = []
    lost = lossy_kinds(tokenizer)
    if lost:
        why, what = suspects(own), "all tested kinds" if len(lost) == len(HOSTILE) else ", ".join(lost)
        found.append(
            f"these kinds of text change when they are encoded and decoded: {what}"
            + (f"; possible causes: {', '.join(why)}" if why else "")
        )
    holes = size - tokenizer.get_vocab_size(with_added_tokens=True)
    if holes:
        found.append(
            f"{holes} of the tokenizer's {size} ids have no token; the model's embedding rows for these ids are never "
            "trained"
        )
    if tokenizer.token_to_id(end) in tokenizer.encode(f"a {end} b{end}", add_special_tokens=False).ids:
        found.append(f"if a document contains the text {end!r}, this text is encoded as the end-of-document token")
    if own.get("truncation") or own.get("padding"):
        found.append("the tokenizer's settings for truncation and padding are ignored; documents are encoded whole")
    if (own.get("model") or {}).get("dropout"):
        found.append("the tokenizer's BPE dropout is ignored; the same text always gets the same tokens")
    return found
