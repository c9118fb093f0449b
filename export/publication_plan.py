"""Show what a publication would send, where, and who could see it, without writing anything (`--dry-run`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bloomery.base.bundle import Bundle
from bloomery.base.hub import MAIN
from bloomery.base.units import format_bytes
from bloomery.config.section import Count
from bloomery.config.stages import ExportStage, PublishStage
from bloomery.contracts.lineage import export_inputs
from bloomery.contracts.paths import RunPaths
from export.publish_checkpoints import is_published
from export.publish_target import FolderTarget, HubTarget
from export.published_checkpoint import BRANCH, CheckpointPaths, read_record


class PlannedFile(BaseModel):
    """A file of a revision."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    bytes: Count
    action: Literal["send", "keep", "delete"]
    """`keep`: the target has the file with this digest."""
    estimated: bool = False
    """Whether the size is that of the same file of the final model, because the checkpoint is not exported yet."""


class PlannedRevision(BaseModel):
    """The final model or a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    branch: str
    tag: str
    files: list[PlannedFile]

    @property
    def sent_bytes(self) -> int:
        """Bytes of the files to send."""
        return sum(file.bytes for file in self.files if file.action == "send")


class PublicationPlan(BaseModel):
    """Plan of a publication: its target, and the files of each revision."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Literal["hub", "folder"]
    endpoint: str | None
    """Address of the Hub. None for a local folder."""
    repository: str
    """`owner/name` on the Hub, or the path of the folder."""
    exists: bool
    """Whether the repository exists. In a local folder, all files are written again."""
    visibility: Literal["private", "public", "local"]
    """Visibility after the publication. An existing repository keeps its visibility."""
    reason: str | None = None
    """Reason why no Hub is used."""
    revisions: list[PlannedRevision]


def plan_publication(
    export: ExportStage,
    publish: PublishStage,
    paths: RunPaths,
    final: Bundle,
    tag: str,
    checkpoints: Sequence[CheckpointPaths],
    target: HubTarget | FolderTarget,
) -> PublicationPlan:
    """Compare the files with the target, and return what a publication would do. Nothing is written.

    Args:
        export: the export's section of the configuration.
        publish: the publication's section of the configuration.
        paths: the paths of the run.
        final: files of the final model.
        tag: tag of the final model.
        checkpoints: checkpoints to publish (`choose_every`).
        target: where to publish.

    Raises:
        ConfigError: the Hub refuses the access token.
        TryAgainError: the Hub did not answer in time.
    """
    on_hub = isinstance(target, HubTarget)
    branch = BRANCH if on_hub else f"{publish.model_repository}-{BRANCH}"
    later = [
        PlannedRevision(branch=branch, tag=each.name, files=_planned_files(export, paths, each, final, target))
        for each in checkpoints
    ]
    if isinstance(target, FolderTarget):
        files = [PlannedFile(path=path, bytes=file.size, action="send") for path, file in sorted(final.files.items())]
        return PublicationPlan(
            target="folder",
            endpoint=None,
            repository=str(paths.published),
            exists=paths.published.exists(),
            visibility="local",
            reason=target.reason,
            revisions=[PlannedRevision(branch=final.name, tag=tag, files=files), *later],
        )
    private = target.hub.is_private(target.repository)
    return PublicationPlan(
        target="hub",
        endpoint=target.hub.endpoint,
        repository=target.repository,
        exists=private is not None,
        visibility="private" if (target.private if private is None else private) else "public",
        revisions=[PlannedRevision(branch=MAIN, tag=tag, files=_compared(final, target)), *later],
    )


def _compared(final: Bundle, target: HubTarget) -> list[PlannedFile]:
    different = set(target.hub.different_files(target.repository, final.files, MAIN, mirror=final.mirror))
    found = [
        PlannedFile(path=path, bytes=file.size, action="send" if path in different else "keep")
        for path, file in sorted(final.files.items())
    ]
    return found + [PlannedFile(path=path, bytes=0, action="delete") for path in sorted(different - final.files.keys())]


def _planned_files(
    export: ExportStage, paths: RunPaths, each: CheckpointPaths, final: Bundle, target: HubTarget | FolderTarget
) -> list[PlannedFile]:
    """Return the files of a checkpoint: the recorded ones if the Hub has them, or else those of the final model."""
    record = read_record(each.record)
    if record is not None and isinstance(target, HubTarget):
        made_from = export_inputs(export, paths, each.checkpoint)
        if is_published(each, made_from, target) is not None:
            return [
                PlannedFile(path=path, bytes=file.bytes, action="keep") for path, file in sorted(record.files.items())
            ]
    return [
        PlannedFile(path=path, bytes=file.size, action="send", estimated=True)
        for path, file in sorted(final.files.items())
    ]


def plan_lines(plan: PublicationPlan) -> list[str]:
    """Return the plan as lines of text."""
    if plan.target == "hub":
        verb = "exists and stays" if plan.exists else "would be created as"
        lines = [f"{plan.endpoint}/{plan.repository}: {verb} {plan.visibility}"]
    else:
        lines = [f"{plan.repository}: a local folder, because {plan.reason}"]
    for revision in plan.revisions:
        where = (
            f"{revision.branch}, tag {revision.tag}" if plan.target == "hub" else f"{revision.branch} ({revision.tag})"
        )
        about = "about " if any(file.estimated for file in revision.files) else ""
        lines.append(f"{where}: {about}{format_bytes(revision.sent_bytes)} to send")
        lines += [
            f"  {file.action:<6}  {'about ' if file.estimated else ''}{format_bytes(file.bytes)}  {file.path}"
            for file in revision.files
        ]
    return [*lines, "dry run: nothing was written"]
