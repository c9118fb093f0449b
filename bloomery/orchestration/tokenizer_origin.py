"""Find the files of an existing tokenizer: in a folder, as a tokenizer.json, or in a Hub repository at one commit.

Only JSON files are read, never Python code or pickles that are stored beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.contracts.tokenizer import FILES, TOKENIZER, tokenizer_files
from bloomery.orchestration.input_names import RENAME, replaced_part

_OTHER_FORMS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "vocab.txt")
"""Vocabulary files of tokenizers that were not saved as tokenizer.json: of SentencePiece, GPT-2 and BERT."""
_MOST_BYTES = 256 << 20
"""Largest accepted file of a Hub, in bytes. A vocabulary of millions of entries takes tens of MB."""


@dataclass(frozen=True)
class Origin:
    """The files of a tokenizer and where they came from."""

    name: str
    """Name of the tokenizer as the user wrote it."""
    files: dict[str, bytes]
    """Content by file name: tokenizer.json, and the two optional JSON files if they exist."""
    endpoint: str | None = None
    """Endpoint of the Hub. This field and the next two are None for local files."""
    repository: str | None = None
    commit: str | None = None


def local_files(name: str) -> list[Path]:
    """Return the files of a tokenizer on this machine. The list is empty for a tokenizer on a Hub.

    Raises:
        InputError: `name` is a local path that does not exist, or contains a part that Snakemake would replace.
    """
    path = Path(name).expanduser()
    if path.exists() and (part := replaced_part(str(path.absolute()))) is not None:
        raise InputError(f"the name contains {part!r}, which Snakemake would replace", where=name, expected=RENAME)
    if path.exists():
        return list(tokenizer_files(path).values())
    if name.startswith((".", "/", "~")) or name.endswith(".json") or name.partition("@")[0].count("/") != 1:
        expected = f"a folder, a {TOKENIZER}, or OWNER/NAME[@REVISION] of a tokenizer on a Hub"
        raise InputError("no such file or folder", where=name, expected=expected)
    return []


def find_tokenizer(name: str) -> Origin:
    """Read the files of the tokenizer `name`: a folder, a file, or `owner/name[@revision]` on a Hub.

    Raises:
        InputError: `name` does not exist, or its tokenizer has another format.
        ConfigError: the Hub refuses the token or the settings are wrong.
        TryAgainError: the Hub does not answer.
    """
    path = Path(name).expanduser()
    if not local_files(name) and not path.is_dir():
        return _from_hub(name)
    if path.is_dir() and not (path / TOKENIZER).is_file():
        raise _refused([form for form in _OTHER_FORMS if (path / form).is_file()], name)
    return Origin(name, {file: place.read_bytes() for file, place in tokenizer_files(path).items()})


def _refused(found: list[str], where: str) -> InputError:
    if not found:
        return InputError(f"has no {TOKENIZER}", where=where, expected=f"a tokenizer saved as {TOKENIZER}")
    kind = "SentencePiece's " if found[0].endswith(".model") else ""
    return InputError(
        f"has {kind}{found[0]} but no {TOKENIZER}",
        where=where,
        expected=f"a tokenizer saved as {TOKENIZER}; in Python, transformers converts such a folder with "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER); then use NEW_FOLDER instead",
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
            raise InputError(
                f"the file has {size} bytes, which is too large",
                where=f"{hub.endpoint}/{repository}/{file}",
                expected=f"a file of a tokenizer with at most {_MOST_BYTES} bytes",
            )
        if size is not None:
            files[file] = hub.read(repository, file, commit, 0, size)
            if len(files[file]) != size:
                raise InputError(
                    f"only {len(files[file])} of {size} bytes arrived",
                    where=f"{hub.endpoint}/{repository}/{file}",
                    expected="the complete file; run the command again",
                )
    return Origin(name, files, hub.endpoint, repository, commit)
