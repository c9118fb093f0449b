"""Where a tokenizer from elsewhere comes from: a folder, a tokenizer.json, or a Hub's repository at one commit.

Only JSON is taken: no Python and no pickle is ever read, whatever lies beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.contracts.tokenizer import CONFIG, FILES, SPECIAL, TOKENIZER

_OTHER_FORMS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "vocab.txt")
"""Vocabularies of tokenizers that were never saved as tokenizer.json: SentencePiece's, GPT-2's, BERT's."""
_MOST_BYTES = 256 << 20
"""A vocabulary of millions of entries takes some tens of MB."""


@dataclass(frozen=True)
class Origin:
    """The files of a tokenizer, and what names them."""

    name: str
    """As it was asked for."""
    files: dict[str, bytes]
    """Content by name: tokenizer.json, and those of the other two that are there."""
    endpoint: str | None = None
    """Of the Hub."""
    repository: str | None = None
    commit: str | None = None


def local_files(name: str) -> list[Path]:
    """The files of a tokenizer that lies on this machine; none for a Hub's. Raises InputError for one that is gone."""
    path = Path(name).expanduser()
    if path.is_dir():
        return [path / file for file in FILES if (path / file).is_file()]
    if path.is_file():
        return [path, *(path.with_name(file) for file in (CONFIG, SPECIAL) if path.with_name(file).is_file())]
    if name.startswith((".", "/", "~")) or name.endswith(".json") or name.partition("@")[0].count("/") != 1:
        expected = f"a folder, a {TOKENIZER}, or OWNER/NAME[@REVISION] of a Hub"
        raise InputError("no such file or folder", where=name, expected=expected)
    return []


def find_tokenizer(name: str) -> Origin:
    """The files of `name`: a folder, a file, or `owner/name[@revision]` of a Hub.

    Raises:
        InputError: nothing there, or a tokenizer of another form.
        ConfigError, TryAgainError: the Hub cannot be asked.
    """
    path = Path(name).expanduser()
    if not local_files(name) and not path.is_dir():
        return _from_hub(name)
    if path.is_dir() and not (path / TOKENIZER).is_file():
        raise _refused([form for form in _OTHER_FORMS if (path / form).is_file()], name)
    files = {file.name: file.read_bytes() for file in local_files(name)}
    if path.is_file():
        files[TOKENIZER] = files.pop(path.name)
    return Origin(name, files)


def _refused(found: list[str], where: str) -> InputError:
    if not found:
        return InputError(f"has no {TOKENIZER}", where=where, expected=f"a tokenizer saved as {TOKENIZER}")
    kind = "SentencePiece's " if found[0].endswith(".model") else ""
    return InputError(
        f"has {kind}{found[0]} but no {TOKENIZER}",
        where=where,
        expected=f"a {TOKENIZER}, as transformers makes of such a folder: "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER); then import OTHER",
    )


def _from_hub(name: str) -> Origin:
    from bloomery.base.hub import Hub
    from bloomery.base.hub_access import find_token

    repository, _, revision = name.partition("@")
    hub = Hub(find_token())
    commit = hub.head(repository, revision or None)
    sizes = {file: hub.size(repository, file, commit) for file in FILES}
    if sizes[TOKENIZER] is None:
        found = [form for form in _OTHER_FORMS if hub.size(repository, form, commit) is not None]
        raise _refused(found, f"{hub.endpoint}/{repository} at {commit}")
    files = {}
    for file, size in sizes.items():
        if size is not None and size > _MOST_BYTES:
            raise InputError(f"has {size} bytes", where=f"{hub.endpoint}/{repository}/{file}", expected="a tokenizer")
        if size is not None:
            files[file] = hub.read(repository, file, commit, 0, size)
            if len(files[file]) != size:
                raise InputError(
                    f"{len(files[file])} bytes came of {size}",
                    where=f"{hub.endpoint}/{repository}/{file}",
                    expected="the whole file: try again",
                )
    return Origin(name, files, hub.endpoint, repository, commit)
