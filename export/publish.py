"""Publish the model to a Hub or, if no Hub is configured, to a local folder of the same layout.

A second call changes nothing. `publish.json` is written only after the digests of the published files are checked.
`bloomery sync` publishes the logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_json
from bloomery.base.bundle import Bundle, copy_bundle, refuse_token
from bloomery.base.hub import Hub
from bloomery.base.hub_access import find_token, why_local
from bloomery.base.progress import say
from bloomery.config.stages import PublishStage
from bloomery.contracts.paths import RunPaths
from export.model_bundle import model_bundle


def publish_run(stage: PublishStage, paths: RunPaths, output: Path) -> dict[str, Any]:
    """Publish a run's verified model, then write the report `output`; return the report.

    Raises:
        InputError: there is no exported model with a parity.json, or the Hub refuses a request.
        CheckFailedError: parity does not hold, a file changed after the export, a file contains the access token, or
            the published copy differs.
        ConfigError: the Hub refuses the access token.
        TryAgainError: the Hub did not answer in time.
        ResourceError: a local folder cannot be written.
    """
    settings = stage.publish
    bundle, parity = model_bundle(paths.export / stage.model_name, settings.model_repository or stage.model_name)
    reason = why_local(hub=settings.hub)
    facts: dict[str, Any] = {
        "checkpoint": parity.checkpoint,
        "max_difference": parity.max_difference,
        "tolerance": parity.tolerance,
    }
    if reason is not None:
        copy_bundle(bundle, output.parent / bundle.name)
        model: dict[str, Any] = {"folder": bundle.name, "files": bundle.listing()}
        facts |= {"target": "folder", "reason": reason, "model": model}
        say(f"published to {output.parent / bundle.name}, not to a Hub, because {reason}")
    else:
        token = find_token()
        assert token is not None
        refuse_token(bundle, token)
        hub = Hub(token)
        repository = f"{settings.owner or hub.user()}/{bundle.name}"
        model = _send(hub, repository, bundle, parity.checkpoint, private=settings.private)
        facts |= {"target": "hub", "endpoint": hub.endpoint, "model": model}
    write_json(output, facts)
    return facts


def _send(hub: Hub, repository: str, bundle: Bundle, step: str, *, private: bool) -> dict[str, Any]:
    """Upload the bundle to a repository, verify the uploaded files, and tag the commit."""
    hub.ensure_repository(repository, private=private)
    commit = hub.synchronise(repository, bundle.files, f"Publish {step}", mirror=bundle.mirror)
    hub.verify(repository, bundle.files, commit, mirror=bundle.mirror)
    hub.tag(repository, step, commit)
    say(f"published {len(bundle.files)} files to {hub.endpoint}/{repository} with the tag {step}")
    return {"repository": repository, "commit": commit, "tag": step, "files": bundle.listing()}
