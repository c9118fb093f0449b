"""Save and load checkpoints. A checkpoint is written in the foreground or while training continues.

Each rank writes and hashes its own files. When all ranks are done, rank 0 adds the manifest and renames the folder. So
a folder with a step's name is always complete, even if a process is killed.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import asdict
from pathlib import Path

import deepspeed
import torch
from safetensors.torch import load_file

from bloomery.base.atomic import explained
from bloomery.base.errors import BloomeryError, ResourceError
from bloomery.base.progress import say
from bloomery.contracts.checkpoint import REFERENCE_NAME, Change, CheckpointManifest, FileEntry, step_name
from bloomery.contracts.index import IndexManifest
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.spec.parameters import layer_count, parameter_count
from bloomery.spec.position import START, Position
from training.checkpoint.collective_calls import from_every_rank, from_rank_0
from training.checkpoint.continuity import check_continuity
from training.checkpoint.find_checkpoint import newest_good
from training.checkpoint.load_checkpoint import load_checkpoint
from training.checkpoint.randomness import random_states, restore_random_states, seed_all
from training.checkpoint.reference_logits import reference_logits
from training.checkpoint.seal_checkpoint import CheckpointFolders
from training.checkpoint.shard_writer import ShardWriter
from training.loop.build_engine import Trainer
from training.resume.policy import changes_since, continues

Written = tuple[dict[str, FileEntry], tuple[int, str] | None]
"""Files that a rank wrote, and the errno and text of its write error. The second item is None if there is no error."""


class CheckpointManager:
    """The checkpoints of one training, in `folder`."""

    def __init__(
        self, trainer: Trainer, folder: Path, identity: str, index: IndexManifest, tokens: torch.Tensor
    ) -> None:
        """Attach the manager to the trainer's engine.

        Args:
            trainer: trainer whose state is saved and loaded.
            folder: folder of the checkpoints.
            identity: identity of the training (`training.resume.policy`).
            index: manifest of the token index.
            tokens: tokens for the reference logits, int64 [samples, length].
        """
        self._trainer = trainer
        self._store = CheckpointFolders(folder, trainer.stage.training.checkpoint)
        self._identity = identity
        self._index = index
        self._tokens = tokens
        self._changes: list[Change] = []
        self.changed: list[Change] = []
        """Configuration keys that changed since the loaded checkpoint, except keys with the policy `freely`
        (`training.resume.policy`)."""
        self._pending: Position | None = None
        self._writer = ShardWriter()
        trainer.engine.checkpoint_engine = self._writer
        # DeepSpeed would copy recovery scripts beside the checkpoint, but they cannot read a pipeline checkpoint.
        trainer.engine._copy_recovery_script = lambda _path: None

    def load(self) -> Position:
        """Load the newest good checkpoint, whatever its layout, and return its position. Collective.

        If there is no checkpoint, seed every random number generator and return the start of the training.

        Raises:
            CheckFailedError: every checkpoint is damaged, or the loaded network's reference logits differ from the
                saved ones.
            ConfigError, InputError: the checkpoint does not fit the trainer (see `load_checkpoint`).
        """
        trainer, store = self._trainer, self._store
        found = newest_good(store.folder, lambda manifest: continues(manifest, self._identity, self._index))
        store.damaged, manifest = found.damaged, found.manifest
        if manifest is None:
            seed_all(trainer.stage.seed)
            return START
        store.newest = step_name(manifest.iteration)
        folder = store.folder / store.newest
        self.changed = changes_since(manifest, trainer.stage)
        self._changes = [*manifest.changes, *self.changed]
        load_checkpoint(trainer, folder, manifest, verified=True)
        continuity = check_continuity(trainer, folder, manifest)
        if trainer.mesh.rank == 0:
            say(f"loaded {store.newest}: {continuity}")
        self._restore_random_states(folder, manifest)
        return Position.of(manifest)

    def _restore_random_states(self, folder: Path, manifest: CheckpointManifest) -> None:
        """Restore the generator states of this rank, or those of rank 0 if the checkpoint has none for this rank."""
        for rank in (self._trainer.mesh.rank, 0):
            if (name := _random_name(rank)) in manifest.files:
                restore_random_states(load_file(folder / name), self._trainer.mesh.device)
                return
        # Older versions of Bloomery saved no generator states.
        seed_all(self._trainer.stage.seed)

    @property
    def written_here(self) -> bool:
        """Whether this rank has written all of its files of the current save."""
        return self._writer.is_done

    def save(self, position: Position, wait: bool = True) -> str:
        """Save the training at `position` and return the checkpoint's name. Collective.

        With `wait`, the checkpoint is complete on return. Otherwise, this rank's state is copied and written in a
        thread, and `finish` completes the checkpoint. An earlier save that is still in progress is finished first.

        Raises:
            ResourceError: the disk has too little space, or a rank could not write. Older checkpoints are unchanged.
        """
        self.finish()
        trainer, mesh, iteration = self._trainer, self._trainer.mesh, position.iteration
        name, work = step_name(iteration), self._store.work(iteration)
        if from_rank_0(lambda: self._is_saved(position)):
            return name
        from_rank_0(lambda: self._store.begin(iteration, self._expected_bytes()))
        self._writer.begin(work, background=not wait)
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.engine.save_checkpoint(str(work.parent), tag=name, save_latest=False)
        logits = reference_logits(trainer, self._tokens)
        if logits is not None and mesh.tensor_rank == 0:
            self._writer.save_tensors({"tokens": self._tokens, "logits": logits}, work / REFERENCE_NAME)
        self._writer.save_tensors(random_states(mesh.device), work / _random_name(mesh.rank))
        self._writer.end()
        self._pending = position
        if wait:
            self.finish()
        return name

    def finish(self) -> str | None:
        """Wait for the save in progress, seal its checkpoint and prune older ones. Collective.

        Returns:
            The checkpoint's name, or None if no save is in progress.

        Raises:
            ResourceError: a rank could not write. Older checkpoints are unchanged.
        """
        if self._pending is None:
            return None
        position, self._pending = self._pending, None
        self._writer.join()
        written = from_every_rank(lambda: (self._writer.files, _said(self._writer.problem)))
        from_rank_0(lambda: self._seal(position, written))
        return step_name(position.iteration)

    def _is_saved(self, position: Position) -> bool:
        """Whether a good checkpoint of this training at `position` exists."""

        def is_this(manifest: CheckpointManifest) -> bool:
            same = manifest.consumed_samples == position.consumed_samples
            return same and continues(manifest, self._identity, self._index)

        return self._store.has(position.iteration, is_this)

    def _expected_bytes(self) -> int:
        """Return an upper estimate of a checkpoint's size in bytes.

        The estimate counts weights, fp32 master weights, two fp32 moments and the reference logits. Without the logits,
        BLOOM needs 14 bytes per parameter.
        """
        trainer = self._trainer
        count = parameter_count(trainer.stage.model, trainer.vocabulary_rows)
        reference = self._tokens.numel() * trainer.vocabulary_rows * 4
        return count * (trainer.dtype.itemsize + 12) + reference

    def _seal(self, position: Position, written: list[Written]) -> None:
        """Do rank 0's part of `finish`: seal the checkpoint, or give it up if a rank could not write."""
        try:
            with explained(self._store.folder):
                for _, problem in written:
                    if problem is not None:
                        raise OSError(*problem)
                self._store.seal(
                    self._manifest(position, {name: files[name] for files, _ in written for name in files})
                )
        except (BloomeryError, OSError) as error:
            self._store.give_up()
            if isinstance(error, BloomeryError):
                raise
            raise ResourceError(
                f"cannot write the checkpoint: {error.strerror}",
                where=str(self._store.folder),
                expected="a writable folder with enough free space; then run the same command again",
            ) from error

    def _manifest(self, position: Position, files: dict[str, FileEntry]) -> CheckpointManifest:
        trainer, index = self._trainer, self._index
        parallel = trainer.mesh.parallel
        return CheckpointManifest(
            identity=self._identity,
            prefix=sample_prefix(index, position.consumed_samples),
            config=trainer.stage.model_dump(mode="json"),
            **asdict(position),
            changes=self._changes,
            tensor_parallel=parallel.tensor,
            pipeline_parallel=parallel.pipeline,
            data_parallel=parallel.data,
            sequence_parallel=parallel.sequence_parallel,
            stage_layers=list(trainer.network.parts),
            vocabulary_size=index.vocabulary_size,
            vocabulary_rows=trainer.vocabulary_rows,
            layers=layer_count(trainer.stage.model),
            versions={"torch": torch.__version__, "deepspeed": deepspeed.__version__},
            files=dict(sorted(files.items())),
        )


def _said(problem: Exception | None) -> tuple[int, str] | None:
    """Return the errno (0 if there is none) and the text of a rank's write error."""
    if isinstance(problem, OSError):
        return problem.errno or 0, problem.strerror or str(problem)
    return None if problem is None else (0, f"{type(problem).__name__}: {problem}")


def _random_name(rank: int) -> str:
    """Return the name of the file with a rank's random number generator states."""
    return f"random_rank_{rank:05d}.safetensors"
