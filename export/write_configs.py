"""Write config.json, generation_config.json and the tokenizer's files of a transformers folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.contracts.remote_code import refuse_remote_code
from bloomery.contracts.tokenizer import CONFIG, SPECIAL, TOKENIZER, load_tokenizer, special_tokens, vocabulary_size

REQUIRED_TOKENIZER_FILES = (TOKENIZER, CONFIG)
OPTIONAL_TOKENIZER_FILES = (SPECIAL,)


@dataclass(frozen=True)
class TokenizerFacts:
    """Facts about the tokenizer that config.json needs."""

    size: int
    special_ids: dict[str, int | None]
    """Token ids of the roles `bos`, `eos` and `pad`; None if the tokenizer has no such token."""


def read_tokenizer(folder: Path, entries: int | None) -> TokenizerFacts:
    """Return the size and the special ids of a tokenizer. `entries` is None if the number of entries is not known.

    Raises:
        InputError: a file is missing or damaged, a special token has no id, or a file names Python code to run.
        CheckFailedError: the tokenizer does not have `entries` entries, the number that the model was trained with.
    """
    for name in REQUIRED_TOKENIZER_FILES:
        if not (folder / name).is_file():
            raise InputError(
                "no such file",
                where=str(folder / name),
                expected="the file, as the workflow wrote it; restore this file or run the workflow again",
            )
    for name in (CONFIG, SPECIAL):
        if (folder / name).is_file():
            refuse_remote_code(folder / name)
    path = folder / TOKENIZER
    tokenizer = load_tokenizer(path)
    size = vocabulary_size(tokenizer)
    if entries is not None and size != entries:
        raise CheckFailedError(
            f"the tokenizer has {size} entries",
            where=str(path),
            expected=f"{entries} entries, as in the tokenizer that the checkpoint was trained with",
        )
    roles = special_tokens(folder)
    ids: dict[str, int | None] = {}
    for role in ("bos", "eos", "pad"):
        text = roles.get(role)
        ids[role] = None if text is None else tokenizer.token_to_id(text)
        if text is not None and ids[role] is None:
            raise InputError(
                f"{role}_token {text!r} is not in the vocabulary",
                where=str(folder / CONFIG),
                expected=f"a token in {TOKENIZER}",
            )
    return TokenizerFacts(size, ids)


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the tokenizer's files byte for byte."""
    for name in (*REQUIRED_TOKENIZER_FILES, *OPTIONAL_TOKENIZER_FILES):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def write_configs(folder: Path, config: Any) -> None:
    """Write config.json and generation_config.json."""
    from transformers import GenerationConfig

    config.save_pretrained(folder)
    GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    ).save_pretrained(folder)
