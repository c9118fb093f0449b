"""A thin client for a Hub endpoint: commits through the HTTP API, with timeouts, retries and a check of the result.

It fills gaps of huggingface_hub 2.4: the shared client there has no timeout, `create_commit` is not retried, and a lost
response looks like a failure. A retry repeats the whole call with new operations; files that the first attempt already
committed need no operation. The token comes from HF_TOKEN or `hf auth login` and appears in no message.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bloomery.base.bundle import LocalFile
from bloomery.base.errors import CheckFailedError, ConfigError, InputError, ResourceError, TryAgainError
from bloomery.base.hub_access import read_timeout_seconds
from bloomery.base.hub_retries import RetryWindow, passing_fault, pause_seconds, total_bytes
from bloomery.base.progress import say

T = TypeVar("T")

MAIN = "main"
"""Name of the branch that a Hub shows and that clients load by default."""
_CONNECT_TIMEOUT_SECONDS = 10.0
_TOTAL_RETRY_SECONDS = 900.0
_FILES_A_COMMIT = 100
"""Number of files per commit; the Hub recommends about 100."""


class Hub:
    """One endpoint and one token. Every method can raise the errors of `_run`."""

    def __init__(self, token: str | None, *, retry_seconds: float = _TOTAL_RETRY_SECONDS) -> None:
        """Use the endpoint of HF_ENDPOINT, which huggingface_hub reads when it is imported.

        Args:
            token: token of the user; None to read public repositories only.
            retry_seconds: how long one call retries temporary faults, counted from the first one after any progress.
        """
        import httpx2
        from huggingface_hub import HfApi, set_client_factory
        from huggingface_hub.utils import disable_progress_bars
        from huggingface_hub.utils._http import hf_request_event_hook

        seconds = read_timeout_seconds()
        # Xet's uploads run in Rust and do not use the client below.
        os.environ.setdefault("HF_XET_CLIENT_READ_TIMEOUT", f"{max(1, round(seconds))}s")
        # The hook is a private function, but without it a custom client ignores HF_HUB_OFFLINE.
        set_client_factory(
            lambda: httpx2.Client(
                event_hooks={"request": [hf_request_event_hook]},
                follow_redirects=True,
                timeout=httpx2.Timeout(seconds, connect=min(seconds, _CONNECT_TIMEOUT_SECONDS)),
            )
        )
        if not sys.stderr.isatty():
            disable_progress_bars()
        self._token = token
        self._retry_seconds = retry_seconds
        # The client of huggingface_hub sends some requests 6 times before it gives up.
        self._long_attempt_seconds = max(retry_seconds, 10 * seconds)
        self._api = HfApi(token=token or False, library_name="bloomery")

    @property
    def endpoint(self) -> str:
        """Address of the Hub."""
        return str(self._api.endpoint)

    def _run(self, what: str, call: Callable[[], T], progress: Callable[[], int] = lambda: 0) -> T:
        """Run `call` until it succeeds, fails with a permanent fault, or the time for retries is used up.

        This time begins at the first failure. It begins again at a failure after progress, so that a fault late in a
        long transfer is retried, too.

        Args:
            what: what the call does, for messages.
            call: the call. A repetition continues what earlier attempts did.
            progress: returns a number that grows with progress, such as the bytes that were received. An attempt that
                runs for the time for retries and for at least 10 timeouts counts as progress too, because some of its
                requests were answered.

        Raises:
            TryAgainError: a temporary fault lasted longer than the time for retries.
            ConfigError: the token is rejected, or HF_HUB_OFFLINE is set.
            InputError: the Hub rejects the request for another reason.
        """
        import httpx2
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

        window, attempt = RetryWindow(self._retry_seconds, self._long_attempt_seconds), 0
        while True:
            began = time.monotonic()
            try:
                return call()
            except (HfHubHTTPError, httpx2.TransportError, OSError, RuntimeError) as error:
                headers, reason = passing_fault(error), self._reason(error)
                if isinstance(error, OfflineModeIsEnabled):
                    raise ConfigError(
                        f"cannot {what}: HF_HUB_OFFLINE is set",
                        where=self.endpoint,
                        expected="no HF_HUB_OFFLINE in the environment (`unset HF_HUB_OFFLINE`)",
                    ) from None
                if headers is None:
                    if not isinstance(error, HfHubHTTPError):
                        raise
                    # `from None`: the cause may quote the request, which contains the token.
                    if error.response.status_code in (401, 403):
                        raise ConfigError(
                            f"cannot {what}: {reason}",
                            where=self.endpoint,
                            expected="a token with write access, in HF_TOKEN or from `hf auth login`",
                        ) from None
                    raise InputError(
                        f"cannot {what}: {reason}",
                        where=self.endpoint,
                        expected="a request that the Hub accepts; check HF_ENDPOINT and the names of owner and "
                        "repository",
                    ) from None
                failed = time.monotonic()
                if window.begins_again(began, failed, progress()):
                    attempt = 0
                pause = pause_seconds(headers, attempt)
                if failed + pause > window.end:
                    raise TryAgainError(
                        f"cannot {what}: {reason}",
                        where=self.endpoint,
                        expected=f"an answer of the Hub within {self._retry_seconds:.0f} s; run the command again "
                        "(the Hub keeps the files that were uploaded)",
                    ) from None
                say(f"{what}: {reason}; retrying in {pause:.0f} s")
                time.sleep(pause)
                attempt += 1
            except ValueError as error:  # such as a model card whose metadata the Hub does not accept
                raise InputError(
                    f"cannot {what}: {self._reason(error)}",
                    where=self.endpoint,
                    expected="names, files and metadata that the Hub accepts; correct what the message states",
                ) from None

    def _reason(self, error: Exception) -> str:
        """Describe a fault in one line, without the token."""
        text = " ".join(str(error).split()) or type(error).__name__
        return (text.replace(self._token, "<token>") if self._token else text)[:300]

    def user(self) -> str:
        """Return the name of the token's user."""
        return self._run("look up the user of the token", lambda: str(self._api.whoami()["name"]))

    def ensure_repository(self, repository: str, *, private: bool) -> bool:
        """Create a model repository unless it exists. Return whether it was created. An existing repository keeps its
        visibility."""
        from huggingface_hub.errors import RepositoryNotFoundError

        def once() -> bool:
            try:
                self._api.repo_info(repository)
            except RepositoryNotFoundError:
                self._api.create_repo(repository, private=private, exist_ok=True)
                return True
            return False

        return self._run(f"create the repository {repository}", once)

    def is_private(self, repository: str) -> bool | None:
        """Return whether a model repository is private. Return None if it does not exist."""
        from huggingface_hub.errors import RepositoryNotFoundError

        def once() -> bool | None:
            try:
                return bool(self._api.repo_info(repository).private)
            except RepositoryNotFoundError:
                return None

        return self._run(f"look up the repository {repository}", once)

    def ensure_branch(self, repository: str, branch: str) -> None:
        """Create a branch that begins at the newest commit of `main`, unless the branch exists."""

        def once() -> None:
            if branch not in {ref.name for ref in self._api.list_repo_refs(repository).branches}:
                self._api.create_branch(repository, branch=branch, exist_ok=True)

        self._run(f"create the branch {branch} of {repository}", once)

    def head(self, repository: str, revision: str | None = None) -> str:
        """Return the full id of the newest commit, or of the commit that a branch, tag or (short) commit id names."""
        return self._run(
            f"find the newest commit of {repository}",
            lambda: str(self._api.repo_info(repository, revision=revision).sha),
        )

    def size(self, repository: str, path: str, commit: str) -> int | None:
        """Return the size of a file in bytes, or None if the commit does not contain the file."""
        found = self._run(
            f"find {path} in {repository}", lambda: self._api.get_paths_info(repository, [path], revision=commit)
        )
        return next((int(entry.size) for entry in found if hasattr(entry, "blob_id")), None)

    def read(self, repository: str, path: str, commit: str, start: int, end: int) -> bytes:
        """Return the bytes `start` (included) to `end` (excluded) of a file."""
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

        if start >= end:
            return b""
        address = hf_hub_url(repository, path, revision=commit, endpoint=self.endpoint)
        headers = build_hf_headers(token=self._token or False, library_name="bloomery")

        def once() -> bytes:
            answer = get_session().get(address, headers=headers | {"Range": f"bytes={start}-{end - 1}"})
            hf_raise_for_status(answer)
            # 200: a server without range support sends the whole file.
            return bytes(answer.content if answer.status_code == 206 else answer.content[start:end])

        return self._run(f"read {path} of {repository}", once)

    def files(self, repository: str, commit: str) -> dict[str, int]:
        """Return the size in bytes of every file of a commit, by its path."""
        found = self._run(f"list the files of {repository}", lambda: self._listing(repository, commit))
        return {path: int(entry.size) for path, entry in found.items()}

    def download(self, repository: str, commit: str, paths: Collection[str]) -> Path:
        """Download files of a commit into the cache of huggingface_hub, and return the folder that contains them.

        Files that are in the cache are not downloaded again, and a retry continues with the missing ones.
        """
        from huggingface_hub import constants, snapshot_download
        from huggingface_hub.file_download import repo_folder_name

        received = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type="model") / "blobs"

        def once() -> str:
            return str(
                snapshot_download(
                    repository,
                    revision=commit,
                    allow_patterns=sorted(paths),
                    token=self._token or False,
                    endpoint=self.endpoint,
                    library_name="bloomery",
                )
            )

        return Path(self._run(f"download {repository}", once, lambda: total_bytes(received)))

    def _listing(self, repository: str, revision: str) -> dict[str, Any]:
        tree = self._api.list_repo_tree(repository, recursive=True, revision=revision)
        return {entry.path: entry for entry in tree if hasattr(entry, "blob_id")}

    def synchronise(
        self,
        repository: str,
        files: Mapping[str, LocalFile],
        message: str,
        *,
        mirror: bool = False,
        gone: Collection[str] = (),
        branch: str = MAIN,
    ) -> str:
        """Commit the files that differ. Return the commit whose listing contains all files with matching digests.

        If no file differs, no commit is made.

        Args:
            repository: `owner/name` of a model repository.
            files: local file of each path in the repository.
            message: title of the commits.
            mirror: delete all other files of the repository (except `.gitattributes`).
            gone: paths to delete if the repository contains them.
            branch: existing branch to which the files are committed.

        Raises:
            CheckFailedError: the repository still differs after all files were sent, or a file keeps changing.
            ResourceError: a local file cannot be read.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        def once() -> str | None:
            head = str(self._api.repo_info(repository, revision=branch).sha)
            remote = self._listing(repository, head)
            changed = [path for path in sorted(files) if not _matches(remote.get(path), files[path])]
            extra = remote.keys() - {".gitattributes"} if mirror else remote.keys() & set(gone)
            operations: list[Any] = [
                CommitOperationDelete(path_in_repo=path, is_folder=False) for path in sorted(extra - files.keys())
            ]
            for path in changed:
                content = files[path].content
                operations.append(CommitOperationAdd(path, content if isinstance(content, bytes) else str(content)))
            if not operations:
                return head
            # The Hub rejects a late commit of an abandoned attempt, because its parent is no longer the head.
            some = operations[:_FILES_A_COMMIT]
            self._api.create_commit(repository, some, commit_message=message, parent_commit=head, revision=branch)
            return None

        missing = [
            path for path, file in files.items() if isinstance(file.content, Path) and not file.content.is_file()
        ]
        if missing:
            raise ResourceError(
                "the file disappeared while it was being published",
                where=str(files[missing[0]].content),
                expected="a file that exists until publishing ends; restore the file and publish again",
            )
        # Each round lists the repository again, so that a round whose response was lost is not committed twice.
        for _ in range(2 + 2 * (len(files) // _FILES_A_COMMIT + 1)):
            head = self._run(f"upload files to {repository}", once)
            if head is not None:
                return head
        raise CheckFailedError(
            "the repository still differs after all files were uploaded",
            where=f"{self.endpoint}/{repository}",
            expected="local files that do not change during the upload, and no other process that writes to the "
            "repository; run the command again",
        )

    def different_files(
        self, repository: str, files: Mapping[str, LocalFile], revision: str, *, mirror: bool = True
    ) -> list[str]:
        """Return the paths at which a revision differs from the local digests. Only digests are compared.

        Return the paths of all files if the repository or the revision does not exist. With `mirror`, files of the
        revision that are not local are different too.
        """
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        def once() -> dict[str, Any]:
            try:
                return self._listing(repository, revision)
            except (RepositoryNotFoundError, RevisionNotFoundError):
                return {}

        remote = self._run(f"list the files of {repository}", once)
        wrong = [path for path in sorted(files) if not _matches(remote.get(path), files[path])]
        return wrong + (sorted(remote.keys() - files.keys() - {".gitattributes"}) if mirror else [])

    def verify(self, repository: str, files: Mapping[str, LocalFile], revision: str, *, mirror: bool) -> None:
        """Compare the files of a commit with the local digests.

        Raises:
            CheckFailedError: files differ; the error names them.
        """
        wrong = self.different_files(repository, files, revision, mirror=mirror)
        if wrong:
            raise CheckFailedError(
                f"{len(wrong)} files of the repository differ from the local files: {', '.join(wrong[:5])}",
                where=f"{self.endpoint}/{repository} at {revision}",
                expected="equal files; check that no other process writes to the repository, and publish again",
            )

    def tag(self, repository: str, name: str, commit: str) -> None:
        """Make tag `name` point at `commit`, moving the tag if it points elsewhere."""

        def once() -> None:
            refs = self._api.list_repo_refs(repository)
            target = next((ref.target_commit for ref in refs.tags if ref.name == name), None)
            if target == commit:
                return
            if target is not None:
                self._api.delete_tag(repository, tag=name)
            self._api.create_tag(repository, tag=name, revision=commit, exist_ok=True)

        self._run(f"set the tag {name} of {repository}", once)


def _matches(entry: Any, file: LocalFile) -> bool:
    """Return whether an entry of the Hub's listing is exactly this file."""
    if entry is None or entry.size != file.size:
        return False
    if entry.lfs is not None:
        return bool(entry.lfs.sha256 == file.sha256)
    return bool(entry.blob_id == file.git_oid)
