"""Publish checkpoints of a training beside the final model: each one is exported, proved, uploaded and tagged.

An interrupted publication can be started again. Checkpoints that the Hub holds with the recorded digests are skipped,
and an export that was finished is used again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from bloomery.base.bundle import Bundle
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.folders import only_writer
from bloomery.base.links import link_atomically
from bloomery.base.progress import say
from bloomery.config.stages import ExportStage, PublishStage
from bloomery.contracts.lineage import export_inputs
from bloomery.contracts.parity import PARITY_NAME, read_parity
from bloomery.contracts.paths import RunPaths
from bloomery.spec.weight_files import MAX_SHARD_BYTES
from export.export_model import export_model
from export.model_bundle import model_bundle
from export.publish_target import FolderTarget, HubTarget
from export.published_checkpoint import BRANCH, CheckpointPaths, published_folder, read_record, write_record


def publish_checkpoints(
    export: ExportStage,
    publish: PublishStage,
    paths: RunPaths,
    checkpoints: Sequence[CheckpointPaths],
    target: HubTarget | FolderTarget,
    *,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> dict[str, str]:
    """Publish each checkpoint, oldest first. Return the commit or the local folder of each, by the checkpoint's name.

    Args:
        export: the export's section of the configuration.
        publish: the publication's section of the configuration.
        paths: the paths of the run.
        checkpoints: checkpoints to publish (`choose_every`).
        target: where to publish. In a local folder, each exported model is kept.
        max_shard_bytes: largest size of a weight file.

    Raises:
        CheckFailedError: the exported model of a checkpoint differs from the training, or the published files differ
            from it.
        InputError: a checkpoint is damaged or lacks its reference.
        TryAgainError: the Hub did not answer in time, or another process publishes these checkpoints.
        ResourceError: the disk is full or a folder cannot be written.
    """
    folder, found = published_folder(paths, export.model_name), {}
    with only_writer(folder / ".lock", folder):
        for number, each in enumerate(checkpoints, start=1):
            say(f"checkpoint {each.name}: {number} of {len(checkpoints)}")
            made_from = export_inputs(export, paths, each.checkpoint)
            if isinstance(target, HubTarget):
                found[each.name] = is_published(each, made_from, target) or _upload(
                    export, publish, paths, each, target, max_shard_bytes
                )
            else:
                _exported(export, publish, paths, each, max_shard_bytes)
                found[each.name] = str(each.exported)
    if isinstance(target, FolderTarget) and checkpoints:
        link = paths.published / f"{publish.model_repository}-{BRANCH}"
        paths.published.mkdir(parents=True, exist_ok=True)
        link_atomically(link, Path("..") / folder.relative_to(paths.run))
        say(f"published {len(checkpoints)} checkpoints to {link}, not to a Hub, because {target.reason}")
    return found


def is_published(each: CheckpointPaths, made_from: Mapping[str, str], target: HubTarget) -> str | None:
    """Return the recorded commit if the Hub's tag holds exactly the recorded files. Return None otherwise."""
    record = read_record(each.record)
    here = (target.hub.endpoint, target.repository, dict(made_from))
    if record is None or (record.endpoint, record.repository, record.made_from) != here:
        return None
    files = {path: entry.expected for path, entry in record.files.items()}
    different = target.hub.different_files(target.repository, files, each.name)
    if different:
        say(f"{each.name}: {len(different)} files of the Hub differ from the recorded ones")
        return None
    say(f"{each.name}: the Hub has all {len(files)} files with the recorded digests")
    return record.commit


def _upload(
    export: ExportStage,
    publish: PublishStage,
    paths: RunPaths,
    each: CheckpointPaths,
    target: HubTarget,
    max_shard_bytes: int,
) -> str:
    bundle, made_from = _exported(export, publish, paths, each, max_shard_bytes)
    commit = target.send(bundle, each.name, BRANCH)
    write_record(each.record, each.name, target.hub.endpoint, target.repository, commit, made_from, bundle)
    shutil.rmtree(each.exported, ignore_errors=True)
    return commit


def _exported(
    export: ExportStage, publish: PublishStage, paths: RunPaths, each: CheckpointPaths, max_shard_bytes: int
) -> tuple[Bundle, dict[str, str]]:
    """Return the files of the checkpoint's exported model. Export it unless an earlier call finished its export."""
    if not _is_current(export, paths, each):
        # An interrupted removal can leave a folder without parity.json, which an export would not replace.
        shutil.rmtree(each.exported, ignore_errors=True)
        export_model(export, paths, each.exported, checkpoint_name=each.name, max_shard_bytes=max_shard_bytes)
    try:
        bundle, parity = model_bundle(each.exported, publish.model_repository)
    except CheckFailedError as error:
        # No user edits this folder. If a file has changed since the export, the checkpoint is exported again.
        say(f"{error}; exporting {each.name} again")
        export_model(export, paths, each.exported, checkpoint_name=each.name, max_shard_bytes=max_shard_bytes)
        bundle, parity = model_bundle(each.exported, publish.model_repository)
    return bundle, parity.made_from


def _is_current(export: ExportStage, paths: RunPaths, each: CheckpointPaths) -> bool:
    if not (each.exported / PARITY_NAME).is_file():
        return False
    try:
        parity = read_parity(each.exported)
    except InputError as error:
        # No user edits this folder. A damaged file, or one of another version, is replaced by a new export.
        say(f"{error}; exporting {each.name} again")
        return False
    return parity.made_from == export_inputs(export, paths, each.checkpoint)
