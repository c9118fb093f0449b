"""Publishing: model and logs to a Hub, or, where none is configured, to local folders of the same layout.

Run again and nothing changes. What was sent is checked by digest on the other side before `publish.json` says so.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_json
from bloomery.base.errors import CheckFailedError
from bloomery.base.folders import atomic_folder
from bloomery.base.hub import Hub, LocalFile, find_token, is_offline
from bloomery.base.progress import say
from bloomery.config.delivery import PublishConfig
from bloomery.config.stages import PublishStage
from bloomery.contracts.paths import RunPaths
from export.bundle import Bundle, logs_bundle, model_bundle, refuse_token


def publish_run(stage: PublishStage, paths: RunPaths, output: Path) -> dict[str, Any]:
    """Publish a run's verified model and its logs, then write `output`; returns what was written.

    Raises:
        InputError: there is no exported model with a parity.json, or the Hub refuses a request.
        CheckFailedError: parity does not hold, a file changed since, a file holds the token, or the copy differs.
        ConfigError: the token is refused.
        TryAgainError: the Hub did not answer in time.
        ResourceError: a local folder cannot be written.
    """
    settings = stage.publish
    model_name = settings.model_repository or stage.model_name
    logs_name = settings.logs_repository or f"{stage.model_name}-logs"
    model, parity = model_bundle(paths.export / stage.model_name, model_name)
    logs = logs_bundle(paths, logs_name, stage.name, stage.model_name)
    reason = _why_local(settings)
    facts: dict[str, Any] = {
        "checkpoint": parity.checkpoint,
        "max_difference": parity.max_difference,
        "tolerance": parity.tolerance,
    }
    if reason is not None:
        for bundle in (model, logs):
            _copy(bundle, output.parent / bundle.name)
        facts |= {"target": "folder", "reason": reason}
        facts |= {
            role: {"folder": bundle.name, "files": _listing(bundle)}
            for role, bundle in (("model", model), ("logs", logs))
        }
        say(f"published to {output.parent} and not to a Hub: {reason}")
    else:
        token = find_token()
        assert token is not None
        for bundle in (model, logs):
            refuse_token(bundle, token)
        hub = Hub(token)
        owner = settings.owner or hub.user()
        facts |= {"target": "hub", "endpoint": hub.endpoint}
        for role, bundle in (("model", model), ("logs", logs)):
            facts[role] = _send(hub, f"{owner}/{bundle.name}", bundle, parity.checkpoint, private=settings.private)
    write_json(output, facts)
    return facts


def _why_local(settings: PublishConfig) -> str | None:
    """Why nothing goes to a Hub; None when one is configured.

    The endpoint must be named too: a token that lies in a home folder is no wish to publish.
    """
    if not settings.hub:
        return "publish.hub is false"
    if is_offline():
        return "HF_HUB_OFFLINE is set"
    if "HF_ENDPOINT" not in os.environ:
        return "HF_ENDPOINT is not set"
    return "HF_TOKEN is not set" if find_token() is None else None


def _send(hub: Hub, repository: str, bundle: Bundle, step: str, *, private: bool) -> dict[str, Any]:
    """Upload, check and tag one repository."""
    hub.ensure_repository(repository, private=private)
    commit = hub.synchronise(repository, bundle.files, f"Publish {step}", mirror=bundle.mirror)
    hub.verify(repository, bundle.files, commit, mirror=bundle.mirror)
    hub.tag(repository, step, commit)
    say(f"published {len(bundle.files)} files to {hub.endpoint}/{repository}, tag {step}")
    return {"repository": repository, "commit": commit, "tag": step, "files": _listing(bundle)}


def _listing(bundle: Bundle) -> dict[str, Any]:
    return {path: {"bytes": file.size, "sha256": file.sha256} for path, file in sorted(bundle.files.items())}


def _copy(bundle: Bundle, folder: Path) -> None:
    """Copy a bundle into `folder`, which appears or is replaced whole."""
    with atomic_folder(folder) as temporary:
        for path, file in bundle.files.items():
            target = temporary / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(file.content, bytes):
                target.write_bytes(file.content)
            else:
                shutil.copyfile(file.content, target)
            if LocalFile.of(target).sha256 != file.sha256:
                raise CheckFailedError("changed while it was copied", where=str(file.content), expected="publish again")
