"""Before a segment starts: say what changed since the newest checkpoint, and go on from it, begin anew, or refuse."""

from __future__ import annotations

from bloomery.base.errors import CheckFailedError
from bloomery.base.progress import say
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, newest_manifest, step_name
from bloomery.contracts.index import IndexManifest, read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.prefix import how_to_keep, prefix_differences, sample_prefix
from bloomery.contracts.skips import effective
from training.resume.policy import SKIP, Difference, Policy, differences, identity
from training.resume.roll_back import complete_roll_backs


def newest_checkpoint(paths: RunPaths) -> CheckpointManifest | None:
    """Manifest of the newest checkpoint, whatever its identity; a damaged one is passed over."""
    return newest_manifest(paths.checkpoints)


def apply_on_change(configured: TrainStage, paths: RunPaths) -> TrainStage:
    """Keep checkpoints of another training apart: go on, move them to the archive, or refuse, as `on_change` says.

    What changed is said, with the policy of each key.

    Returns what the segment runs with: the configuration, with the samples that the run skips.

    Raises:
        CheckFailedError: refused, with what is not the same and what would be right.
        InputError: a checkpoint of another version.
    """
    complete_roll_backs(paths)
    newest, stage = newest_checkpoint(paths), effective(configured, paths)
    if newest is None:
        return stage
    index, on_change = read_index_manifest(paths.index_manifest), stage.training.on_change
    found = differences(newest, stage)
    never, keep = _never(newest, found, stage, index)
    boundary = [str(change) for change in found if change.policy is Policy.BOUNDARY]
    if on_change == "restart" and (never or boundary):
        _archive(paths, newest, [*never, *boundary], keep if never else None)
        return configured
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
    return stage


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
