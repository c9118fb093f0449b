"""Publish the model to a Hub or, if no Hub is configured, to a local folder of the same layout.

A second call changes nothing. `publish.json` is written only after the digests of the published files are checked.
`bloomery sync` publishes the logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_json
from bloomery.base.bundle import Bundle, copy_bundle, refuse_token
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.hub import Hub
from bloomery.base.hub_access import find_token, why_local
from bloomery.base.progress import say
from bloomery.config.stages import PublishStage
from bloomery.contracts.lineage import PARITY, SECTION, stage_digest
from bloomery.contracts.parity import PARITY_NAME, Parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, new_result
from bloomery.contracts.stale_artefacts import CORPUS, INDEX, TOKENIZER, TRAINING, find_stale
from export.model_bundle import model_bundle

REPORT_NAME = "publish.json"
"""File that records what was published, and where."""


def publish_run(stage: PublishStage, paths: RunPaths, place: Place) -> dict[str, Any]:
    """Publish a run's verified model, then write the result at `place`. Return the report, which the result contains.

    Raises:
        InputError: the exported model or its parity.json is missing, a file that records what the model was made from
            cannot be read, or the Hub refuses a request.
        CheckFailedError: parity does not hold, a file changed after the export, a file contains the access token, the
            published copy differs, or the model or something that it was made from is older than its inputs.
        ConfigError: the Hub refuses the access token.
        TryAgainError: the Hub did not answer in time, or another process publishes this model.
        ResourceError: a local folder cannot be written.
    """
    _refuse_stale(stage, paths)
    bundle, parity = model_bundle(paths.export / stage.model_name, stage.model_repository)
    with new_result(place) as new:
        facts = _publish(stage, bundle, parity, new.folder)
        write_json(new.folder / REPORT_NAME, facts)
        new.made_from = {PARITY: bundle.files[PARITY_NAME].sha256, SECTION: stage_digest(stage)}
    if facts["target"] == "folder":
        say(f"published to {place.shown / bundle.name}, not to a Hub, because {facts['reason']}")
    return facts


def _refuse_stale(stage: PublishStage, paths: RunPaths) -> None:
    """Refuse a model that is stale or was made from something stale, or whose origin cannot be read.

    Raises:
        CheckFailedError: the model or something that it was made from is older than its inputs.
        InputError: a file that records what the model was made from cannot be read.
    """
    found = find_stale(paths)
    for artefact in (CORPUS, TOKENIZER, INDEX, TRAINING, f"model {stage.model_name}"):
        for error in found.unreadable.get(artefact, []):
            raise InputError(
                f"nothing was published, because a file of the {artefact} cannot be read: {error.what}",
                where=error.where,
                expected=error.expected,
            ) from error
        if artefact in found.stale:
            stale = found.stale[artefact]
            raise CheckFailedError(
                f"the {artefact} is {stale}",
                where=str(paths.run),
                expected=f"a model that was made from what is on the disk now; nothing was published. Run the workflow "
                f"again with the target {stale.target}, or restore the old configuration",
            )


def _publish(stage: PublishStage, bundle: Bundle, parity: Parity, folder: Path) -> dict[str, Any]:
    """Send the bundle to the Hub, or copy it below `folder` if no Hub is configured. Return the report."""
    settings = stage.publish
    reason = why_local(hub=settings.hub)
    facts: dict[str, Any] = {
        "checkpoint": parity.checkpoint,
        "max_difference": parity.max_difference,
        "tolerance": parity.tolerance,
    }
    if reason is not None:
        copy_bundle(bundle, folder / bundle.name)
        model: dict[str, Any] = {"folder": bundle.name, "files": bundle.listing()}
        facts |= {"target": "folder", "reason": reason, "model": model}
    else:
        token = find_token()
        assert token is not None
        refuse_token(bundle, token)
        hub = Hub(token)
        repository = f"{settings.owner or hub.user()}/{bundle.name}"
        model = _send(hub, repository, bundle, parity.checkpoint, private=settings.private)
        facts |= {"target": "hub", "endpoint": hub.endpoint, "model": model}
    return facts


def _send(hub: Hub, repository: str, bundle: Bundle, step: str, *, private: bool) -> dict[str, Any]:
    """Upload the bundle to a repository, verify the uploaded files, and tag the commit."""
    hub.ensure_repository(repository, private=private)
    commit = hub.synchronise(repository, bundle.files, f"Publish {step}", mirror=bundle.mirror)
    hub.verify(repository, bundle.files, commit, mirror=bundle.mirror)
    hub.tag(repository, step, commit)
    say(f"published {len(bundle.files)} files to {hub.endpoint}/{repository} with the tag {step}")
    return {"repository": repository, "commit": commit, "tag": step, "files": bundle.listing()}
