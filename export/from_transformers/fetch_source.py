"""Find a transformers folder: on this machine, or in a repository on a Hub, from which it is downloaded at one commit.

Only JSON files and weights are downloaded, never Python code. If the repository has safetensors files, its pickles are
not downloaded. Weight files may have any names, because their index is downloaded first and names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.errors import InputError, TryAgainError
from bloomery.base.hub import Hub
from bloomery.base.hub_access import find_token, is_offline
from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from bloomery.contracts.tokenizer import FILES
from bloomery.spec.weight_files import WEIGHTS_NAME
from export.from_transformers.find_weights import BIN_NAME, FORMS, indexed_files
from export.from_transformers.read_network import CONFIG_NAME

_SMALL = (CONFIG_NAME, *FILES)


@dataclass(frozen=True)
class Source:
    """A transformers folder and where it came from."""

    name: str
    """Absolute path of a folder, or the repository as the user wrote it."""
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
            weights, or its index of the weights is damaged.
        ConfigError: the Hub refuses the token or the settings are wrong.
        TryAgainError: the Hub does not answer.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        # A path such as `.` would mean another folder in another working directory.
        return Source(str(path.resolve()), path)
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
    wanted = [*_weights(hub, repository, commit, sizes, where), *(name for name in _SMALL if name in sizes)]
    say(f"download {format_bytes(sum(sizes[path] for path in wanted))} of {repository} at {commit}")
    return Source(name, hub.download(repository, commit, wanted), hub.endpoint, repository, commit)


def _weights(hub: Hub, repository: str, commit: str, sizes: Mapping[str, int], where: str) -> list[str]:
    """Return the names of the repository's weight files, and of their index if there is one.

    Raises:
        InputError: there are no weights, or the index is damaged or names files that do not exist.
    """
    for single, index, suffix in FORMS:
        if single in sizes:
            return [single]
        if index not in sizes:
            continue
        names = indexed_files(hub.download(repository, commit, [index]) / index, suffix)
        missing = [name for name in names if name not in sizes]
        if missing:
            raise InputError(
                f"{index} names {len(missing)} files that the repository does not have, such as {missing[0]}",
                where=where,
                expected="a repository with every file that its index names",
            )
        return [index, *names]
    raise InputError(
        "the repository has no weights",
        where=where,
        expected=f"{WEIGHTS_NAME} or {BIN_NAME}, or several files and their index, at the top level",
    )


def _cached(name: str, repository: str, revision: str | None) -> Source:
    """Return a repository that was downloaded before.

    Raises:
        TryAgainError: the cache does not contain it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    def complete(*weights: str) -> Path:
        """Return the folder of the snapshot.

        The cache contains the list of the repository's files. If the repository has one of these files and the cache
        does not, because a download was interrupted, an error is raised.
        """
        patterns = [*_SMALL, *weights]
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns, local_files_only=True))

    try:
        for single, index, suffix in FORMS:
            folder = complete(single)
            if (folder / single).is_file():
                break
            if (complete(index) / index).is_file():
                complete(*indexed_files(folder / index, suffix))
                break
    except (LocalEntryNotFoundError, ValueError) as error:
        raise TryAgainError(
            "HF_HUB_OFFLINE is set, and the cache of huggingface_hub does not contain this repository",
            where=name,
            expected="a repository that was downloaded before, with its commit (OWNER/NAME@COMMIT); or run the command "
            "once where the Hub can be reached",
        ) from error
    # The name of the folder of a snapshot is the full id of its commit.
    return Source(name, folder, None, repository, folder.name)
