"""Decide before a segment starts whether to resume from the newest checkpoint, to restart, or to raise an error.

The decision depends on what changed since the checkpoint was saved and on `training.on_change`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bloomery.base.errors import CheckFailedError
from bloomery.base.progress import say
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, newest_manifest, step_name
from bloomery.contracts.index_manifest import IndexManifest, read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import SKIP, Difference, Policy, continues, differences, identity
from bloomery.contracts.sample_prefix import how_to_keep, prefix_differences, sample_prefix
from bloomery.contracts.skips import effective
from bloomery.spec.batch import samples_to_read
from bloomery.spec.position import Position
from bloomery.spec.trajectory import trajectory
from training.resume.complete_repairs import complete_repairs
from training.resume.explain_refusal import archive_folder, boundary_refusal, never_refusal
from training.resume.roll_back import complete_roll_backs


@dataclass(frozen=True)
class ResumePoint:
    """Configuration of a segment and the checkpoint that the segment resumes from."""

    stage: TrainStage
    """Configuration of the training, with all sample ranges that the run skips."""
    index: IndexManifest
    identity: str
    """Digest of the tokenizer and of the values of the keys that may never change
    (`bloomery.contracts.resume_policy.identity`)."""
    checkpoint: CheckpointManifest | None
    """Manifest of the newest readable checkpoint, whatever its identity. None if there is no checkpoint."""

    @property
    def position(self) -> Position:
        """Position at which the checkpoint was saved, or the start of the training if there is no checkpoint."""
        return Position.of(self.checkpoint)

    @property
    def checkpoint_name(self) -> str | None:
        """Name of the checkpoint's folder. None if there is no checkpoint."""
        return None if self.checkpoint is None else step_name(self.checkpoint.iteration)

    @property
    def continues(self) -> bool:
        """Whether the checkpoint has this training's identity, and the index begins with the samples read so far."""
        return self.checkpoint is not None and continues(self.checkpoint, self.identity, self.index)

    @property
    def total_iterations(self) -> int:
        """Iterations of the whole training: the iterations up to the checkpoint and the planned ones after it."""
        return trajectory(self.stage.model, self.stage.training, self.position).iterations

    def after_segment(self, paths: RunPaths) -> ResumePoint:
        """Return a copy with the manifest of the current newest checkpoint."""
        return replace(self, checkpoint=newest_manifest(paths.checkpoints))


def resolve_resume(configured: TrainStage, paths: RunPaths) -> ResumePoint:
    """Decide what the next segment resumes from.

    An interrupted repair or roll-back is completed first. Every changed key is reported with its policy. If a change
    requires a restart and `on_change` is `restart`, the old training moves to the archive.

    Raises:
        CheckFailedError: the training cannot resume with the changed keys or samples. The error names the changes and
            states what a resume needs. This error is also raised if the index has samples of another length, or too few
            samples.
        InputError: the checkpoint is from an incompatible version of Bloomery, or the index is missing.
    """
    complete_repairs(paths)
    complete_roll_backs(paths)
    index, newest = read_index_manifest(paths.index_manifest), newest_manifest(paths.checkpoints)
    _refuse_other_index(configured, index, paths)
    stage = effective(configured, paths)
    if newest is not None and not _keeps(newest, stage, index, paths):
        # The run's skipped ranges have moved to the archive too, so use the configured ranges only.
        newest, stage = None, configured
    return ResumePoint(stage, index, identity(stage, index), newest)


def _refuse_other_index(stage: TrainStage, index: IndexManifest, paths: RunPaths) -> None:
    """Raise CheckFailedError if the index has samples of another length, or fewer samples than the training reads.

    The workflow always builds the index first, but a segment that is started by hand could read an old index.
    """
    samples = samples_to_read(stage.training.batch, stage.training.train_samples)
    if index.sequence_length != stage.model.sequence_length:
        raise CheckFailedError(
            f"the index has samples of {index.sequence_length} tokens, but model.sequence_length is "
            f"{stage.model.sequence_length}",
            where=str(paths.index_manifest),
            expected=f"an index whose samples have {stage.model.sequence_length} tokens; run the workflow with the "
            f"target index, or set model.sequence_length to {index.sequence_length}",
        )
    if index.train_samples < samples:
        raise CheckFailedError(
            f"the index has {index.train_samples} training samples, but the training reads {samples}",
            where=str(paths.index_manifest),
            expected=f"an index of at least {samples} training samples; run the workflow with the target index, or set "
            "training.train_samples to the old value",
        )


def _keeps(newest: CheckpointManifest, stage: TrainStage, index: IndexManifest, paths: RunPaths) -> bool:
    """Whether the training resumes from `newest`. If not, move the old training to the archive.

    Raises:
        CheckFailedError: the training cannot resume with the changes, and `on_change` does not allow a restart.
    """
    on_change = stage.training.on_change
    found = differences(newest, stage)
    never, keep = _never(newest, found, stage, index)
    boundary = [str(change) for change in found if change.policy is Policy.BOUNDARY]
    if on_change == "restart" and (never or boundary):
        _archive(paths, newest, [*never, *boundary], keep if never else None)
        return False
    if never:
        raise never_refusal(paths, newest, found, [*never, *boundary], keep)
    if boundary and on_change == "refuse":
        raise boundary_refusal(paths, newest, [change for change in found if change.policy is Policy.BOUNDARY])
    if found:
        say(f"the training resumes from {step_name(newest.iteration)} with these changed configuration keys:")
        for change in found:
            say(f"  {change}")
    return True


def _never(
    newest: CheckpointManifest, found: list[Difference], stage: TrainStage, index: IndexManifest
) -> tuple[list[str], str]:
    """Return one phrase for each change that the policy forbids, and a description of what a resume needs."""
    never = [change for change in found if change.policy is Policy.NEVER]
    phrases = [str(change) for change in never]
    needed = ["the old values"] if never else []
    # `training.skip` is not part of the identity, but all keys that may never change are. The tokenizer is
    # part of it too. So if none of these keys differs, a different identity means a different tokenizer.
    if newest.identity != identity(stage, index) and all(each.key == SKIP for each in never):
        phrases.append("the tokenizer")
        needed.append("the old tokenizer")
    now = sample_prefix(index, newest.consumed_samples)
    if newest.prefix != now:
        others = ", ".join(prefix_differences(newest.prefix, now))
        phrases.append(f"the first {newest.consumed_samples} samples would be different ({others})")
        needed.append(how_to_keep(newest.prefix))
    keep = " and ".join(needed)
    if any(change.key == SKIP for change in never):
        keep += f" (training.skip may change only for samples from {newest.consumed_samples} on)"
    return phrases, keep


def _archive(paths: RunPaths, newest: CheckpointManifest, changed: list[str], keep: str | None) -> None:
    """Move the old training to the archive, so that a new training starts from the beginning.

    Args:
        paths: paths of the run.
        newest: manifest of the old training's newest checkpoint.
        changed: phrases that describe the changes.
        keep: what would be necessary to resume the old training. None if `on_change: continue` is enough.
    """
    archive = archive_folder(paths, newest)
    archive.mkdir(parents=True, exist_ok=True)
    for place in (
        *(paths.logs, paths.segments / "history", paths.skips, paths.incidents, paths.rolled_back, paths.starts),
        paths.before_repair,
        paths.preflight,
        paths.checkpoints,
    ):
        if place.exists():
            place.rename(archive / place.name)
    say(f"the training starts from the beginning because of these changes: {'; '.join(changed)}")
    say(f"the old training was moved to {archive}; resuming it would need: {keep or 'training.on_change: continue'}")
    say("as long as training.on_change is restart, further changes like these restart the training again")
