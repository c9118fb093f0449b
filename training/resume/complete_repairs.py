"""Replace checkpoints by their repaired versions (`training.checkpoint.repair_checkpoint`).

A repaired checkpoint is complete before this module moves it. So the next start of the training, or the next repair,
can complete a repair that was interrupted during the moves.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder
from bloomery.base.progress import say
from bloomery.contracts.checkpoint import step_folders
from bloomery.contracts.paths import RunPaths
from training.resume.move_checkpoint import free_path, reopen


def complete_repairs(paths: RunPaths) -> list[Path]:
    """Move each repaired checkpoint to its place, and the old one to train/before-repair.

    Return the new folders of the old checkpoints. The caller holds the lease of the training.
    """
    moved = []
    for repaired in step_folders(paths.repairing):
        target, before = paths.checkpoints / repaired.name, free_path(paths.before_repair / repaired.name)
        with explained(target):
            paths.before_repair.mkdir(parents=True, exist_ok=True)
            # If the repair was interrupted, the old checkpoint may have moved already.
            if target.exists():
                target.rename(before)
                fsync_folder(paths.before_repair)
            repaired.rename(target)
            fsync_folder(paths.checkpoints)
        # A training that had finished runs its last segment again, which computes the reference logits for the export.
        reopen(paths)
        say(f"checkpoint {target.name} was repaired; the checkpoint before the repair is in {paths.before_repair}")
        moved.append(before)
    # Remove the unfinished files of a repair that was killed.
    shutil.rmtree(paths.repairing, ignore_errors=True)
    return moved
