"""A thin client for a Hub endpoint: commits through its HTTP API, with timeouts, retries and a check of what arrived.

huggingface_hub 2.4 leaves gaps that this fills: its shared client has no timeout, a commit through `create_commit` is
not retried, and a lost answer looks like a failure. The whole call is run again with fresh operations; what the first
try already committed turns into nothing to do. The token comes from HF_TOKEN or `hf auth login` and appears in no
message.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bloomery.base.bundle import LocalFile
from bloomery.base.errors import CheckFailedError, ConfigError, InputError, ResourceError, TryAgainError
from bloomery.base.hub_access import read_timeout_seconds
from bloomery.base.progress import say

T = TypeVar("T")

_CONNECT_TIMEOUT_SECONDS = 10.0
_TOTAL_RETRY_SECONDS = 900.0
_LONGEST_PAUSE_SECONDS = 60.0
_FILES_A_COMMIT = 100
"""The Hub recommends about 100 files a commit."""
_PASSING_STATUS = frozenset({408, 409, 412, 429})
"""Besides 5xx. 409 and 412: another commit came first."""


def pause_seconds(headers: Mapping[str, str], attempt: int) -> float:
    """How long to wait before trying again: what the Hub says (RateLimit, Retry-After), else 1, 2, 4, ... 60 s."""
    limit = re.search(r"(?:^|;)\s*t=(\d+)", headers.get("RateLimit", ""))
    if limit:
        return float(limit.group(1)) + 1.0
    after = headers.get("Retry-After", "")
    if after.isdigit():
        return float(after)
    return min(_LONGEST_PAUSE_SECONDS, 2.0**attempt)


def _passing_fault(error: Exception) -> Mapping[str, str] | None:
    """The answer's headers (maybe none) when the fault may pass by itself, None when it will not.

    Xet, written in Rust, raises the builtin ConnectionError and RuntimeError.
    """
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        return error.response.headers if status in _PASSING_STATUS or status >= 500 else None
    if isinstance(error, OfflineModeIsEnabled):
        return None
    if isinstance(error, httpx2.TransportError | ConnectionError) or type(error) is RuntimeError:
        return {}
    return None


class Hub:
    """One endpoint and one token. Every method may raise what `_run` raises."""

    def __init__(self, token: str | None, *, retry_seconds: float = _TOTAL_RETRY_SECONDS) -> None:
        """Use the endpoint of HF_ENDPOINT (huggingface_hub reads it when it is imported).

        Args:
            token: None reads public repositories.
            retry_seconds: how long passing faults are borne, a call at a time.
        """
        import httpx2
        from huggingface_hub import HfApi, set_client_factory
        from huggingface_hub.utils import disable_progress_bars
        from huggingface_hub.utils._http import hf_request_event_hook

        seconds = read_timeout_seconds()
        # Xet's uploads run in Rust, which knows nothing of the client below.
        os.environ.setdefault("HF_XET_CLIENT_READ_TIMEOUT", f"{max(1, round(seconds))}s")
        # Private, but without this hook HF_HUB_OFFLINE is not enforced for a client of our own.
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
        self._api = HfApi(token=token or False, library_name="bloomery")

    @property
    def endpoint(self) -> str:
        """Address of the Hub."""
        return str(self._api.endpoint)

    def _run(self, what: str, call: Callable[[], T]) -> T:
        """Run `call` until it succeeds, a fault is not a passing one, or the time for retries is used up.

        Raises:
            TryAgainError: a passing fault did not pass in time.
            ConfigError: the token is refused.
            InputError: the Hub refuses the request for another reason.
        """
        import httpx2
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

        deadline = time.monotonic() + self._retry_seconds
        attempt = 0
        while True:
            try:
                return call()
            except (HfHubHTTPError, httpx2.TransportError, OSError, RuntimeError) as error:
                headers, reason = _passing_fault(error), self._reason(error)
                if isinstance(error, OfflineModeIsEnabled):
                    raise ConfigError(f"cannot {what}: HF_HUB_OFFLINE is set", where=self.endpoint) from None
                if headers is None:
                    if not isinstance(error, HfHubHTTPError):
                        raise
                    # `from None`: the cause may quote the request, and the request holds the token.
                    if error.response.status_code in (401, 403):
                        raise ConfigError(
                            f"cannot {what}: {reason}",
                            where=self.endpoint,
                            expected="a token that may write there, in HF_TOKEN or by `hf auth login`",
                        ) from None
                    raise InputError(f"cannot {what}: {reason}", where=self.endpoint) from None
                pause = pause_seconds(headers, attempt)
                if time.monotonic() + pause > deadline:
                    raise TryAgainError(
                        f"cannot {what}: {reason}",
                        where=self.endpoint,
                        expected=f"an answer within {self._retry_seconds:.0f} s; nothing that arrived is lost",
                    ) from None
                say(f"{what}: {reason}; trying again in {pause:.0f} s")
                time.sleep(pause)
                attempt += 1
            except ValueError as error:  # e.g. a model card whose metadata the Hub does not accept
                raise InputError(f"cannot {what}: {self._reason(error)}", where=self.endpoint) from None

    def _reason(self, error: Exception) -> str:
        """One line about a fault, without the token."""
        text = " ".join(str(error).split()) or type(error).__name__
        return (text.replace(self._token, "<token>") if self._token else text)[:300]

    def user(self) -> str:
        """Name of the token's user."""
        return self._run("ask who the token belongs to", lambda: str(self._api.whoami()["name"]))

    def ensure_repository(self, repository: str, *, private: bool) -> bool:
        """Create a model repository unless it exists (then False); an existing one keeps its visibility."""
        from huggingface_hub.errors import RepositoryNotFoundError

        def once() -> bool:
            try:
                self._api.repo_info(repository)
            except RepositoryNotFoundError:
                self._api.create_repo(repository, private=private, exist_ok=True)
                return True
            return False

        return self._run(f"create {repository}", once)

    def head(self, repository: str, revision: str | None = None) -> str:
        """Name of the newest commit, or of the one that a branch, tag or (short) name says."""
        return self._run(f"look at {repository}", lambda: str(self._api.repo_info(repository, revision=revision).sha))

    def size(self, repository: str, path: str, commit: str) -> int | None:
        """Size of a file in bytes; None when the commit does not hold it."""
        found = self._run(
            f"look at {repository}", lambda: self._api.get_paths_info(repository, [path], revision=commit)
        )
        return next((int(entry.size) for entry in found if hasattr(entry, "blob_id")), None)

    def read(self, repository: str, path: str, commit: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end` (left out) of a file."""
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

        if start >= end:
            return b""
        address = hf_hub_url(repository, path, revision=commit, endpoint=self.endpoint)
        headers = build_hf_headers(token=self._token or False, library_name="bloomery")

        def once() -> bytes:
            answer = get_session().get(address, headers=headers | {"Range": f"bytes={start}-{end - 1}"})
            hf_raise_for_status(answer)
            # 200: a server that knows no ranges sends the whole file.
            return bytes(answer.content if answer.status_code == 206 else answer.content[start:end])

        return self._run(f"read {path} of {repository}", once)

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
    ) -> str:
        """Commit what differs; returns the commit that holds all of it, as its listing's digests say.

        Nothing to do: no commit.

        Args:
            repository: `owner/name` of a model repository.
            files: path in the repository -> file.
            message: title of the commits.
            mirror: delete whatever else the repository holds (`.gitattributes` aside).
            gone: paths to delete where the repository holds them.

        Raises:
            CheckFailedError: the repository still differs after all was sent, or a file changes all the time.
            ResourceError: a local file cannot be read.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        def once() -> str | None:
            head = str(self._api.repo_info(repository).sha)
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
            # With its parent named, a commit that was given up and arrives late is refused, not made a second time.
            self._api.create_commit(
                repository, operations[:_FILES_A_COMMIT], commit_message=message, parent_commit=head
            )
            return None

        missing = [
            path for path, file in files.items() if isinstance(file.content, Path) and not file.content.is_file()
        ]
        if missing:
            raise ResourceError("file vanished while it was published", where=str(files[missing[0]].content))
        # Each round lists the repository anew, so that a round whose answer was lost is not committed twice.
        for _ in range(2 + 2 * (len(files) // _FILES_A_COMMIT + 1)):
            head = self._run(f"upload to {repository}", once)
            if head is not None:
                return head
        raise CheckFailedError(
            "the repository still differs after every file was sent",
            where=f"{self.endpoint}/{repository}",
            expected="files that nobody changes during the upload, and one writer",
        )

    def verify(self, repository: str, files: Mapping[str, LocalFile], revision: str, *, mirror: bool) -> None:
        """Compare what the Hub holds at a commit with the local digests. Raises CheckFailedError naming differences."""
        remote = self._run(f"list {repository}", lambda: self._listing(repository, revision))
        wrong = [path for path in sorted(files) if not _matches(remote.get(path), files[path])]
        if mirror:
            wrong += sorted(remote.keys() - files.keys() - {".gitattributes"})
        if wrong:
            raise CheckFailedError(
                f"{len(wrong)} files differ from what was sent: {', '.join(wrong[:5])}",
                where=f"{self.endpoint}/{repository} at {revision}",
            )

    def tag(self, repository: str, name: str, commit: str) -> None:
        """Make tag `name` point at `commit`, moving it if it points elsewhere."""

        def once() -> None:
            refs = self._api.list_repo_refs(repository)
            target = next((ref.target_commit for ref in refs.tags if ref.name == name), None)
            if target == commit:
                return
            if target is not None:
                self._api.delete_tag(repository, tag=name)
            self._api.create_tag(repository, tag=name, revision=commit, exist_ok=True)

        self._run(f"tag {repository}", once)


def _matches(entry: Any, file: LocalFile) -> bool:
    """Whether an entry of the Hub's listing holds exactly this file."""
    if entry is None or entry.size != file.size:
        return False
    if entry.lfs is not None:
        return bool(entry.lfs.sha256 == file.sha256)
    return bool(entry.blob_id == file.git_oid)
