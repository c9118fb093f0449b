"""Publish the model to a Hub or, if no Hub is configured, to a local folder of the same layout.

A second call changes nothing. `publish.json` is written only after the digests of the published files are checked.
`bloomery sync` publishes the logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_json
from bloomery.base.bundle import Bundle, copy_bundle
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.progress import say
from bloomery.config.stages import PublishStage
from bloomery.contracts.lineage import PARITY, SECTION, stage_digest
from bloomery.contracts.parity import PARITY_NAME, Parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, new_result
from bloomery.contracts.stale_artefacts import CORPUS, INDEX, TOKENIZER, TRAINING, find_stale
from export.model_bundle import model_bundle
from export.publish_target import FolderTarget, HubTarget, find_target

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
    refuse_stale(stage, paths)
    bundle, parity = model_bundle(paths.export / stage.model_name, stage.model_repository)
    return publish_bundle(stage, place, bundle, parity, find_target(stage, bundle))


def publish_bundle(
    stage: PublishStage, place: Place, bundle: Bundle, parity: Parity, target: HubTarget | FolderTarget
) -> dict[str, Any]:
    """Publish the files of a verified model, then write the result at `place`. Return the report.

    The errors are those of `publish_run`.
    """
    with new_result(place) as new:
        facts = _publish(target, bundle, parity, new.folder)
        write_json(new.folder / REPORT_NAME, facts)
        new.made_from = {PARITY: bundle.files[PARITY_NAME].sha256, SECTION: stage_digest(stage)}
    if facts["target"] == "folder":
        say(f"published to {place.shown / bundle.name}, not to a Hub, because {facts['reason']}")
    return facts


def refuse_stale(stage: PublishStage, paths: RunPaths) -> None:
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


def _publish(target: HubTarget | FolderTarget, bundle: Bundle, parity: Parity, folder: Path) -> dict[str, Any]:
    """Send the bundle to the Hub, or copy it below `folder` if no Hub is configured. Return the report."""
    facts: dict[str, Any] = {
        "checkpoint": parity.checkpoint,
        "max_difference": parity.max_difference,
        "tolerance": parity.tolerance,
    }
    if isinstance(target, FolderTarget):
        copy_bundle(bundle, folder / bundle.name)
        model: dict[str, Any] = {"folder": bundle.name, "files": bundle.listing()}
        return facts | {"target": "folder", "reason": target.reason, "model": model}
    commit = target.send(bundle, parity.checkpoint)
    model = {
        "repository": target.repository,
        "commit": commit,
        "tag": parity.checkpoint,
        "files": bundle.listing(),
    }
    return facts | {"target": "hub", "endpoint": target.hub.endpoint, "model": model}
