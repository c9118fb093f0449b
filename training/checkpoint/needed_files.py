"""Check that a checkpoint's manifest lists every file that its layout needs."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.errors import CheckFailedError
from bloomery.checkpoint.files import OTHER_CHECKPOINT, optimizer_file, random_file
from bloomery.contracts.checkpoint import (
    REFERENCE_BEFORE_REPAIR_NAME,
    REFERENCE_NAME,
    CheckpointManifest,
    lacks_reference,
)
from bloomery.contracts.resume_policy import saved_stage


def check_needed_files(folder: Path, manifest: CheckpointManifest) -> None:
    """Check that the manifest lists the optimizer state, the reference logits and the generator states of every rank.

    `bloomery.checkpoint.weights.Checkpoint` checks the files of the layers.

    Raises:
        CheckFailedError: the manifest does not list such a file.
        InputError: this version of Bloomery cannot read the configuration in the manifest.
    """
    bf16 = saved_stage(manifest).training.precision == "bf16"
    tensor, pipeline, data = manifest.tensor_parallel, manifest.pipeline_parallel, manifest.data_parallel
    needed = [
        optimizer_file(replica, stage, rank, tensor, bf16=bf16)
        for replica in range(data)
        for stage in range(pipeline)
        for rank in range(tensor)
    ]
    # A repaired checkpoint gets its reference logits when it is loaded for the first time.
    needed.append(REFERENCE_BEFORE_REPAIR_NAME if lacks_reference(manifest) else REFERENCE_NAME)
    random = [random_file(rank) for rank in range(tensor * pipeline * data)]
    # Older versions of Bloomery saved no generator states.
    if any(name in manifest.files for name in random):
        needed += random
    missing = [name for name in needed if name not in manifest.files]
    if missing:
        more = " ..." if len(missing) > 3 else ""
        raise CheckFailedError(
            f"the checkpoint's manifest.json does not list {', '.join(missing[:3])}{more}",
            where=str(folder),
            expected=f"the files of {tensor} tensor ranks, {pipeline} pipeline stages and {data} replicas; "
            f"{OTHER_CHECKPOINT}",
        )
