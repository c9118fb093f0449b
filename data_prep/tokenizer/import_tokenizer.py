"""Takes a tokenizer from elsewhere instead of training one: the same three files, and origin.json that says whence.

`tokenizer.json` stays as it is, byte for byte. The two files beside it are written anew, with the roles of the special
tokens alone: what else such a file may hold (a class of its own, code to fetch) could make `AutoTokenizer` encode
otherwise than `tokenizers` does here.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.contracts.tokenizer import TOKENIZER, load_tokenizer, special_tokens, vocabulary_size
from bloomery.orchestration.tokenizer_origin import find_tokenizer
from data_prep.tokenizer.folder import ORIGIN, write_folder
from data_prep.tokenizer.lossy_text import HOSTILE, lossy_kinds, suspects

_ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")
_NAMED = 8


def import_tokenizer(
    name: str, folder: Path, *, end_of_document: str | None = None, most_entries: int | None = None
) -> dict[str, Any]:
    """Write tokenizer.json, its two companions and origin.json to `folder`; returns the content of origin.json.

    Args:
        name: a folder, a tokenizer.json, or `owner/name[@revision]` of a Hub.
        end_of_document: the token that ends a document; None: its eos_token.
        most_entries: entries that plans count with.

    Raises:
        InputError: nothing there, not a tokenizer, no end-of-document token, more than `most_entries` entries.
        ConfigError, TryAgainError: the Hub cannot be asked.
    """
    origin = find_tokenizer(name)
    with tempfile.TemporaryDirectory(prefix="bloomery-tokenizer-") as place:
        for file, content in origin.files.items():
            (Path(place) / file).write_bytes(content)
        try:
            tokenizer = load_tokenizer(Path(place) / TOKENIZER)
            roles = special_tokens(Path(place))
        except InputError as error:  # what lies in the temporary folder means nothing to a reader
            raise InputError(error.what, where=name, expected=error.expected) from error
    roles = {role: text for role, text in roles.items() if role in _ROLES and tokenizer.token_to_id(text) is not None}
    roles["eos"] = _end_of_document(name, tokenizer, roles, end_of_document)
    size, added = vocabulary_size(tokenizer), tokenizer.get_added_tokens_decoder()
    if most_entries is not None and size > most_entries:
        raise InputError(
            f"has {size} entries, more than the {most_entries} that plans count with",
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
    write_folder(folder, origin.files[TOKENIZER], roles, ORIGIN, facts, prefix_space=_prefix_space(own))
    at = f" at {origin.commit}" if origin.commit else ""
    say(f"imported {name}{at}: {size} entries, documents end with {roles['eos']}")
    return facts


def _end_of_document(name: str, tokenizer: Any, roles: dict[str, str], asked: str | None) -> str:
    """The token that ends a document. Raises InputError when there is none, or not the one that is asked for."""
    known = sorted({*roles.values(), *(token.content for token in tokenizer.get_added_tokens_decoder().values())})
    some = ", ".join(known[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
    if asked is not None:
        if tokenizer.token_to_id(asked) is None:
            raise InputError(
                f"has no token {asked!r}", where=name, expected=f"one of its special tokens: {some or 'it has none'}"
            )
        return asked
    if "eos" not in roles:
        raise InputError(
            "names no eos_token, so nothing says how a document ends",
            where=name,
            expected="--end-of-document TOKEN (tokenizer.end_of_document in a configuration)"
            + (f", such as {some}" if known else ""),
        )
    return roles["eos"]


def _warnings(tokenizer: Any, own: dict[str, Any], size: int, end: str) -> list[str]:
    found = []
    lost = lossy_kinds(tokenizer)
    if lost:
        why, what = suspects(own), "texts of every kind" if len(lost) == len(HOSTILE) else ", ".join(lost)
        found.append(
            f"does not give every text back: {what} change" + (f"; the cause is among: {', '.join(why)}" if why else "")
        )
    holes = size - tokenizer.get_vocab_size(with_added_tokens=True)
    if holes:
        found.append(f"{holes} of its {size} ids name no token: the model has rows for them that are never trained")
    if tokenizer.token_to_id(end) in tokenizer.encode(f"a {end} b{end}", add_special_tokens=False).ids:
        found.append(f"text that spells {end} is encoded as an end of a document")
    if own.get("truncation") or own.get("padding"):
        found.append("its truncation and padding are not used: documents are encoded whole")
    if (own.get("model") or {}).get("dropout"):
        found.append("its dropout of merges is not used: the same text is encoded alike each time")
    return found


def _prefix_space(own: dict[str, Any]) -> bool:
    """Whether the pre-tokenizer puts a space in front: transformers overwrites that with the value of its own file."""
    return bool((own.get("pre_tokenizer") or {}).get("add_prefix_space"))
