"""Sync a run once: copy its current logs into its repository on the Hub.

Growing files are copied first (`monitoring.snapshot`), so their digests, the upload and the Hub's listing refer to the
same bytes. Files in `logs/` are stored as large files on the Hub. With Xet, a sync uploads only the new pieces of a
large file. A file that the Hub stores as text would be uploaded completely each time, in an encoding that makes it a
third longer. The training does not depend on syncs.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_json
from bloomery.base.bundle import Bundle, LocalFile, copy_bundle, refuse_token
from bloomery.base.digest import sha256_file
from bloomery.base.errors import BloomeryError, ConfigError, TryAgainError
from bloomery.base.file_lock import file_lock
from bloomery.base.hub import Hub
from bloomery.base.hub_access import find_token, why_local
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.config.stages import PublishStage, read_stage
from bloomery.contracts.lineage import REPORTS, TRAINING
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, last_record, new_result, read_result
from monitoring.logs_bundle import logs_bundle
from monitoring.snapshot import training_ended
from monitoring.sync_state import SyncState, failing, read_state, write_sync

_ATTRIBUTES = ".gitattributes"
_LARGE_FILES = ("logs/**", "archive/**")
_SNAPSHOT_NAME = ".snapshot"
_LOCK_NAME = ".lock"
REPORT_NAME = "logs.json"
"""Name of the report on the last sync of a run."""


def read_publish_stage(paths: RunPaths) -> PublishStage:
    """Read the run's settings for the Hub, as the workflow last wrote them. Raises InputError if there are none."""
    return read_stage(paths.config / "publish.json", PublishStage)


def _busy(paths: RunPaths) -> TryAgainError:
    """Return the error of a sync that has waited too long for another sync."""
    return TryAgainError(
        "another process syncs this run",
        where=str(paths.run),
        expected="wait until that process ends, then sync again (or set --wait-seconds)",
    )


def sync_run(
    paths: RunPaths, *, result: Path | None = None, wait_seconds: float = 0.0, retry_seconds: float = 900.0
) -> SyncState:
    """Sync a run once. Afterwards the repository contains what the run's files contained when the sync began.

    Args:
        paths: the paths of the run; its config/publish.json states where the logs go.
        result: record to write if this is the last sync of a run (results/logs.json). The recorded result contains the
            report logs.json and, if no Hub is configured, a copy of the files. None while the run continues.
        wait_seconds: how long to wait for another sync of this run.
        retry_seconds: how long to retry after transient faults of the Hub.

    Raises:
        ConfigError: no Hub is configured and `result` is None, or the Hub refuses the access token.
        CheckFailedError: a file contains the access token, or the repository differs from what was sent.
        InputError: config/publish.json is missing, or the Hub refuses a request.
        ResourceError: the run's folder cannot be written.
        TryAgainError: another process syncs this run, or the Hub did not answer in time.
    """
    stage = read_publish_stage(paths)
    reason = why_local(hub=stage.publish.hub)
    if reason is not None and result is None:
        raise ConfigError(
            f"no Hub is configured: {reason}",
            where=str(paths.run),
            expected="publish.hub: true, and an endpoint and a token of a Hub, as docs/how-to/export.md describes",
        )
    with file_lock(paths.monitoring / _LOCK_NAME, wait_seconds, _busy(paths)):
        state = read_state(paths)
        snapshot = paths.monitoring / _SNAPSHOT_NAME
        finished = training_ended(paths)
        try:
            bundle, title = logs_bundle(stage, paths, snapshot, finished=finished)
            report: dict[str, Any] = {"files": bundle.listing()}
            if reason is None:
                state = _send(stage, bundle, title, state, last=result is not None, retry_seconds=retry_seconds)
                state = state.model_copy(update={"finished": finished})
                write_sync(paths.sync_state, state)
                report |= {"target": "hub"}
                report |= {key: getattr(state, key) for key in ("endpoint", "repository", "commit")}
            else:
                report |= {"target": "folder", "reason": reason, "folder": bundle.name}
            if result is not None:
                _record(Place.of(result), bundle, report, paths)
        except BloomeryError as error:
            write_sync(paths.sync_state, failing(state, str(error)))
            raise
        finally:
            shutil.rmtree(snapshot, ignore_errors=True)
        return state


def _record(place: Place, bundle: Bundle, report: dict[str, Any], paths: RunPaths) -> None:
    """Write the report of a run's last sync and, without a Hub, a copy of the files."""
    with new_result(place) as new:
        if report["target"] == "folder":
            copy_bundle(bundle, new.folder / bundle.name)
        write_json(new.folder / REPORT_NAME, report)
        if paths.finished.is_file():
            new.made_from = {TRAINING: sha256_file(paths.finished)}
        for name in REPORTS:
            if (record := last_record(paths.results / "report" / f"{name}.json")) is not None:
                new.made_from[f"report {name}"] = read_result(record).digest
    if report["target"] == "folder":
        say(f"logs copied to {place.shown / bundle.name}, not to a Hub, because {report['reason']}")


def _send(
    stage: PublishStage, bundle: Bundle, title: str, before: SyncState, *, last: bool, retry_seconds: float
) -> SyncState:
    """Update the repository to the content of the bundle; return the new state."""
    token = find_token()
    assert token is not None
    refuse_token(bundle, token)
    hub = Hub(token, retry_seconds=retry_seconds)
    repository = _repository(hub, stage, bundle, before, ask=last)
    known = (before.endpoint, before.repository) == (hub.endpoint, repository)
    created = hub.ensure_repository(repository, private=stage.publish.private)
    if created or last or not known:
        _keep_large_files(hub, repository)
    # Remove only files that an earlier sync uploaded and the run no longer has, never files that others added.
    gone = before.files.keys() - bundle.files.keys() if known else ()
    # `synchronise` returns a commit whose listing shows every file with our digest, so no further check is needed.
    commit = hub.synchronise(repository, bundle.files, title, gone=gone)
    if commit != before.commit:
        say(f"{utc_now()} synced {len(bundle.files)} files to {hub.endpoint}/{repository}")
    return SyncState(
        endpoint=hub.endpoint,
        repository=repository,
        commit=commit,
        synced=utc_now(),
        files={path: file.size for path, file in sorted(bundle.files.items())},
    )


def _repository(hub: Hub, stage: PublishStage, bundle: Bundle, before: SyncState, *, ask: bool) -> str:
    """Return the repository as `owner/name`.

    Hubs limit how often a client may ask for the owner of an access token. So the owner from the previous sync is used,
    except in the last sync (`ask`).
    """
    if stage.publish.owner:
        return f"{stage.publish.owner}/{bundle.name}"
    if not ask and before.endpoint == hub.endpoint and before.repository is not None:
        owner, _, name = before.repository.partition("/")
        if name == bundle.name:
            return f"{owner}/{name}"
    return f"{hub.user()}/{bundle.name}"


def _keep_large_files(hub: Hub, repository: str) -> None:
    """Add patterns to the repository's .gitattributes, so that the Hub stores logs as large files."""
    head = hub.head(repository)
    size = hub.size(repository, _ATTRIBUTES, head) or 0
    text = hub.read(repository, _ATTRIBUTES, head, 0, size).decode("utf-8", "replace")
    patterns = {line.split()[0] for line in text.splitlines() if line.split()}
    missing = [pattern for pattern in _LARGE_FILES if pattern not in patterns]
    if missing:
        text += "" if text.endswith("\n") or not text else "\n"
        text += "".join(f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in missing)
        # This is a separate commit, because the Hub applies only the attributes that it already has.
        hub.synchronise(repository, {_ATTRIBUTES: LocalFile.of(text.encode())}, "Store logs as large files")
