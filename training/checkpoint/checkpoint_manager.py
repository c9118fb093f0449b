"""Save and load checkpoints, in the foreground or while training goes on.

Each rank writes and hashes its own files; when all are done, rank 0 adds the manifest and renames the folder: one with
a step's name is whole, whenever a process is killed.
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
"""What a rank wrote, and the number and text of the error that kept it from writing more."""


class CheckpointManager:
    """The checkpoints of one training, in `folder`."""

    def __init__(
        self, trainer: Trainer, folder: Path, identity: str, index: IndexManifest, tokens: torch.Tensor
    ) -> None:
        """`identity`: of the training (`training.resume.policy`); `tokens`: what reference logits are computed on."""
        self._trainer = trainer
        self._store = CheckpointFolders(folder, trainer.stage.training.checkpoint)
        self._identity = identity
        self._index = index
        self._tokens = tokens
        self._changes: list[Change] = []
        self.changed: list[Change] = []
        """What the configuration has otherwise than the checkpoint that was loaded."""
        self._pending: Position | None = None
        self._writer = ShardWriter()
        trainer.engine.checkpoint_engine = self._writer
        # It would copy scripts beside the checkpoint that cannot read one of a pipeline.
        trainer.engine._copy_recovery_script = lambda _path: None

    def load(self) -> Position:
        """Load the newest good checkpoint, of whatever layout, and say where the training stands. Collective.

        Without one every generator of random numbers is seeded, and the training begins.

        Raises:
            CheckFailedError: every checkpoint is damaged, or the model says something else than the one that was saved.
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
        """The states of this rank; those of rank 0 where the checkpoint had fewer ranks."""
        for rank in (self._trainer.mesh.rank, 0):
            if (name := _random_name(rank)) in manifest.files:
                restore_random_states(load_file(folder / name), self._trainer.mesh.device)
                return
        # An older version kept none, and drew nothing.
        seed_all(self._trainer.stage.seed)

    @property
    def written_here(self) -> bool:
        """Whether this rank has nothing left to write of a save that was begun."""
        return self._writer.is_done

    def save(self, position: Position, wait: bool = True) -> str:
        """Save the training at `position`; returns the checkpoint's name. Collective.

        With `wait` the checkpoint is there on return. Without, this rank's state is copied and written in a thread, and
        the checkpoint is there after `finish`. A save that was begun before is finished first.

        Raises:
            ResourceError: there is no room, or a rank could not write; older checkpoints are as they were.
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
        """Seal the save that was begun, if any, and prune older checkpoints; returns its name. Collective.

        Waits for what is not written yet.

        Raises:
            ResourceError: a rank could not write; older checkpoints are as they were.
        """
        if self._pending is None:
            return None
        position, self._pending = self._pending, None
        self._writer.join()
        written = from_every_rank(lambda: (self._writer.files, _said(self._writer.problem)))
        from_rank_0(lambda: self._seal(position, written))
        return step_name(position.iteration)

    def _is_saved(self, position: Position) -> bool:
        def is_this(manifest: CheckpointManifest) -> bool:
            same = manifest.consumed_samples == position.consumed_samples
            return same and continues(manifest, self._identity, self._index)

        return self._store.has(position.iteration, is_this)

    def _expected_bytes(self) -> int:
        """Size of a checkpoint: weights, fp32 master weights, Adam's two moments (BLOOM: 14 bytes a parameter)."""
        trainer = self._trainer
        count = parameter_count(trainer.stage.model, trainer.vocabulary_rows)
        reference = self._tokens.numel() * trainer.vocabulary_rows * 4
        return count * (trainer.dtype.itemsize + 12) + reference

    def _seal(self, position: Position, written: list[Written]) -> None:
        """Rank 0's part of `finish`."""
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
            raise ResourceError(f"cannot write: {error.strerror}", where=str(self._store.folder)) from error

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
    """Number and text of what kept a rank from writing."""
    if isinstance(problem, OSError):
        return problem.errno or 0, problem.strerror or str(problem)
    return None if problem is None else (0, f"{type(problem).__name__}: {problem}")


def _random_name(rank: int) -> str:
    """File of a rank's generators of random numbers."""
    return f"random_rank_{rank:05d}.safetensors"
