"""Before a segment starts: compare it with the newest checkpoint, then resume from it, start over, or refuse."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bloomery.base.errors import CheckFailedError
from bloomery.base.progress import say
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, newest_manifest, step_name
from bloomery.contracts.index import IndexManifest, read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_prefix import how_to_keep, prefix_differences, sample_prefix
from bloomery.contracts.skips import effective
from bloomery.spec.position import Position
from bloomery.spec.trajectory import trajectory
from training.resume.policy import SKIP, Difference, Policy, continues, differences, identity
from training.resume.roll_back import complete_roll_backs


@dataclass(frozen=True)
class ResumePoint:
    """What a segment runs with, and what it resumes from."""

    stage: TrainStage
    """The configuration, with the samples that the run skips."""
    index: IndexManifest
    identity: str
    """Digest of what a checkpoint must have in common with `stage` and `index` (`training.resume.policy`)."""
    checkpoint: CheckpointManifest | None
    """The newest readable checkpoint, whatever its identity; None: there is none."""

    @property
    def position(self) -> Position:
        """Where the checkpoint was saved; the start of the training without one."""
        return Position.of(self.checkpoint)

    @property
    def checkpoint_name(self) -> str | None:
        """Folder of the checkpoint."""
        return None if self.checkpoint is None else step_name(self.checkpoint.iteration)

    @property
    def continues(self) -> bool:
        """Whether the checkpoint is one of this very training, so that nothing changed since it was saved."""
        return self.checkpoint is not None and continues(self.checkpoint, self.identity, self.index)

    @property
    def total_iterations(self) -> int:
        """Iterations of the whole training: those up to the checkpoint, and those that follow from its position."""
        return trajectory(self.stage.model, self.stage.training, self.position).iterations

    def after_segment(self, paths: RunPaths) -> ResumePoint:
        """The same, with the newest checkpoint that is there now."""
        return replace(self, checkpoint=newest_manifest(paths.checkpoints))


def resolve_resume(configured: TrainStage, paths: RunPaths) -> ResumePoint:
    """Decide what the next segment resumes from; keep checkpoints of another training apart, as `on_change` says.

    A roll-back that was cut off is completed first. Every changed key is reported with its policy.

    Raises:
        CheckFailedError: refused, with what is not the same and what would be right.
        InputError: a checkpoint of another version, or no index.
    """
    complete_roll_backs(paths)
    index, newest = read_index_manifest(paths.index_manifest), newest_manifest(paths.checkpoints)
    stage = effective(configured, paths)
    if newest is not None and not _keeps(newest, stage, index, paths):
        # The skipped samples and the checkpoints have moved to the archive.
        newest, stage = None, configured
    return ResumePoint(stage, index, identity(stage, index), newest)


def _keeps(newest: CheckpointManifest, stage: TrainStage, index: IndexManifest, paths: RunPaths) -> bool:
    """Whether the training resumes from `newest`; if not, it has been moved to the archive. Raises CheckFailedError."""
    on_change = stage.training.on_change
    found = differences(newest, stage)
    never, keep = _never(newest, found, stage, index)
    boundary = [str(change) for change in found if change.policy is Policy.BOUNDARY]
    if on_change == "restart" and (never or boundary):
        _archive(paths, newest, [*never, *boundary], keep if never else None)
        return False
    if never:
        raise CheckFailedError(
            f"{step_name(newest.iteration)} cannot be continued with what changed: {'; '.join([*never, *boundary])}",
            where=str(paths.checkpoints),
            expected=f"{keep}; or another run name, or training.on_change: restart",
        )
    if boundary and on_change == "refuse":
        raise CheckFailedError(
            f"this changed since {step_name(newest.iteration)}: {'; '.join(boundary)}",
            where=str(paths.checkpoints),
            expected="training.on_change: continue to go on from it with the new values; or the old values, another "
            "run name, or training.on_change: restart",
        )
    if found:
        say(f"since {step_name(newest.iteration)} this changed, and training goes on from there:")
        for change in found:
            say(f"  {change}")
    return True


def _never(
    newest: CheckpointManifest, found: list[Difference], stage: TrainStage, index: IndexManifest
) -> tuple[list[str], str]:
    """What changed that may not, a phrase each, and what would be right."""
    never = [change for change in found if change.policy is Policy.NEVER]
    phrases = [str(change) for change in never]
    # The samples' skips are no part of the identity; every other key that may not change is.
    if newest.identity != identity(stage, index) and all(each.key == SKIP for each in never):
        phrases.append("the tokenizer")
    keep = "the old values" if phrases else ""
    now = sample_prefix(index, newest.consumed_samples)
    if newest.prefix != now:
        others = ", ".join(prefix_differences(newest.prefix, now))
        phrases.append(f"the first {newest.consumed_samples} samples would be others ({others})")
        keep = f"{keep} and {how_to_keep(newest.prefix)}" if keep else how_to_keep(newest.prefix)
    if any(change.key == SKIP for change in never):
        keep += f" (training.skip: only samples from {newest.consumed_samples} on can still be skipped, or read)"
    return phrases, keep


def _archive(paths: RunPaths, newest: CheckpointManifest, changed: list[str], keep: str | None) -> None:
    """Move the training away, so that a new one begins. `keep`: what would let the old one go on; None: `continue`."""
    number, name = 1, f"{newest.identity[:12]}-step{newest.iteration}"
    archive = paths.train / "archive" / name
    # Checkpoints are moved last: one that holds them is whole, another was cut off and is gone on with.
    while (archive / paths.checkpoints.name).exists():
        number += 1
        archive = paths.train / "archive" / f"{name}-{number}"
    archive.mkdir(parents=True, exist_ok=True)
    for place in (
        *(paths.logs, paths.segments / "history", paths.skips, paths.incidents, paths.rolled_back, paths.starts),
        paths.checkpoints,
    ):
        if place.exists():
            place.rename(archive / place.name)
    say(f"training begins anew, because this changed: {'; '.join(changed)}. The old one is kept in {archive}")
    say(f"To go on from it instead: {keep or 'training.on_change: continue'}")
