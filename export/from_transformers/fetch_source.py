"""Find a transformers folder: on this machine, or in a repository on a Hub, from which it is downloaded at one commit.

Only JSON files and weights are downloaded, never Python code. If the repository has safetensors files, its pickles are
not downloaded.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.errors import InputError, TryAgainError
from bloomery.base.hub import Hub
from bloomery.base.hub_access import find_token, is_offline
from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from bloomery.contracts.tokenizer import FILES
from export.from_transformers.find_weights import BIN_INDEX_NAME
from export.from_transformers.read_network import CONFIG_NAME

_SMALL = (CONFIG_NAME, *FILES)
_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
_PICKLES = ("pytorch_model.bin", BIN_INDEX_NAME, "pytorch_model-*.bin")


@dataclass(frozen=True)
class Source:
    """A transformers folder and where it came from."""

    name: str
    """Folder or repository as the user wrote it."""
    folder: Path
    endpoint: str | None = None
    """Endpoint of the Hub. This field and the next two are None for a folder."""
    repository: str | None = None
    commit: str | None = None


def fetch_source(name: str) -> Source:
    """Return the transformers folder `name`: a folder, or `owner/name[@revision]` on a Hub, which is downloaded.

    With HF_HUB_OFFLINE, a repository is taken from the cache.

    Raises:
        InputError: `name` is neither a folder nor the name of a repository, or the repository does not exist or has no
            weights.
        ConfigError: the Hub refuses the token or the settings are wrong.
        TryAgainError: the Hub does not answer.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return Source(name, path)
    repository, _, revision = name.partition("@")
    if name.startswith((".", "/", "~")) or repository.count("/") != 1 or not all(repository.split("/")):
        raise InputError(
            "no such folder", where=name, expected="a folder, or OWNER/NAME[@REVISION] of a model on a Hub"
        )
    if is_offline():
        return _cached(name, repository, revision or None)
    hub = Hub(find_token())
    commit = hub.head(repository, revision or None)
    sizes = hub.files(repository, commit)
    where = f"{hub.endpoint}/{repository} at {commit}"
    if CONFIG_NAME not in sizes:
        raise InputError(
            f"the repository has no {CONFIG_NAME}", where=where, expected="the repository of a transformers model"
        )
    weights = _matching(sizes, _SAFETENSORS) or _matching(sizes, _PICKLES)
    if not weights:
        raise InputError(
            "the repository has no weights",
            where=where,
            expected=f"files such as {_SAFETENSORS[0]} or {_PICKLES[0]} at the top level",
        )
    wanted = [*weights, *_matching(sizes, _SMALL)]
    say(f"download {format_bytes(sum(sizes[path] for path in wanted))} of {repository} at {commit}")
    return Source(name, hub.download(repository, commit, wanted), hub.endpoint, repository, commit)


def _matching(names: Collection[str], patterns: Collection[str]) -> list[str]:
    return sorted(name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))


def _cached(name: str, repository: str, revision: str | None) -> Source:
    """Return a repository that was downloaded before.

    Raises:
        TryAgainError: the cache does not contain it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    def complete(weights: tuple[str, ...]) -> Path:
        patterns = [*_SMALL, *weights]
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns, local_files_only=True))

    try:
        # The cache contains the list of the repository's files, so an interrupted download is an error.
        folder = complete(_SAFETENSORS)
        if not _matching([path.name for path in folder.iterdir()], _SAFETENSORS):
            folder = complete(_PICKLES)
    except (LocalEntryNotFoundError, ValueError) as error:
        raise TryAgainError(
            "HF_HUB_OFFLINE is set, and the cache of huggingface_hub does not contain this repository",
            where=name,
            expected="a repository that was downloaded before; or run the command once where the Hub can be reached",
        ) from error
    # The name of the folder of a snapshot is the full id of its commit.
    return Source(name, folder, None, repository, folder.name)
