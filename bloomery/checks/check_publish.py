"""Checks of the publication of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.config.section import Contradiction
from bloomery.config.stages import PublishStage

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def publish_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find equal names of the repositories of the model and of the logs.

    A Hub does not distinguish upper and lower case in these names.
    """
    stage = PublishStage(name=config.name, model_name=config.model_name, publish=config.publish)
    if stage.model_repository.lower() != stage.logs_repository.lower():
        return []
    message = (
        "publish.model_repository and publish.logs_repository give the repositories of the model and the logs the same "
        f"name, {stage.logs_repository!r}"
    )
    keys = ["publish.logs_repository", "publish.model_repository"]
    value = config.publish.logs_repository
    if value is None:
        keys, value = keys[::-1], config.publish.model_repository
    return [Contradiction(message, tuple(keys), value, "two different names")]
