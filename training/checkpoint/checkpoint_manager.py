"""Save and load checkpoints. A checkpoint is written in the foreground or while training continues.

Each rank checks, writes and hashes its own files. When all ranks are done, rank 0 adds the manifest and renames the
folder. So a folder with a step's name is always complete, even if a process is killed. If the state of a rank is not
finite, the checkpoint is not completed.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from bloomery.base.atomic import explained
from bloomery.base.errors import BloomeryError, CheckFailedError, ResourceError
from bloomery.base.progress import say
from bloomery.checkpoint.drift import DriftError, how_to_repair
from bloomery.checkpoint.files import random_file
from bloomery.checkpoint.reference import reference_tensors
from bloomery.checkpoint.software_versions import changed_versions, software_versions
from bloomery.contracts.checkpoint import REFERENCE_NAME, Change, CheckpointManifest, Repair, step_name
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.index_manifest import IndexManifest
from bloomery.contracts.resume_policy import changes_since, continues
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.spec.checkpoint_size import checkpoint_size
from bloomery.spec.parameters import declare, layer_count
from bloomery.spec.position import START, Position
from training.checkpoint.collective_calls import damage_on_any_rank, from_every_rank, from_rank_0
from training.checkpoint.continuity import check_continuity
from training.checkpoint.damaged_state import not_finite_error
from training.checkpoint.find_checkpoint import newest_good
from training.checkpoint.finite import not_finite_in_trainer, not_finite_weight
from training.checkpoint.load_checkpoint import load_checkpoint
from training.checkpoint.needed_files import check_needed_files
from training.checkpoint.randomness import random_states, restore_random_states, seed_all
from training.checkpoint.reference_logits import ReferenceSamples, compute_reference
from training.checkpoint.seal_checkpoint import CheckpointFolders
from training.checkpoint.shard_writer import NotFiniteError, ShardWriter
from training.loop.build_engine import Trainer
from training.optim.lamb import Lamb


@dataclass(frozen=True)
class _Written:
    """Result of one rank's writes."""

    files: dict[str, FileEntry]
    not_finite: str | None
    """Description of a tensor that is not finite. None if all tensors are finite."""
    error: tuple[int, str] | None
    """Errno and text of a write error. The errno is 0 if the error has none. None without a write error."""


class CheckpointManager:
    """The checkpoints of one training, in `folder`."""

    def __init__(
        self, trainer: Trainer, folder: Path, identity: str, index: IndexManifest, samples: ReferenceSamples
    ) -> None:
        """Attach the manager to the trainer's engine.

        Args:
            trainer: trainer whose state is saved and loaded.
            folder: folder of the checkpoints.
            identity: identity of the training (`bloomery.contracts.resume_policy`).
            index: manifest of the token index.
            samples: samples of the reference.
        """
        self._trainer = trainer
        self._store = CheckpointFolders(folder, trainer.stage.training.checkpoint)
        self._identity = identity
        self._index = index
        self._samples = samples
        self._changes: list[Change] = []
        self._repairs: list[Repair] = []
        self.changed: list[Change] = []
        """Configuration keys that changed since the loaded checkpoint, except keys with the policy `freely`
        (`bloomery.contracts.resume_policy`)."""
        self.changed_versions: list[str] = []
        """Software versions that changed since the loaded checkpoint was saved, as phrases for a message."""
        self.damaged: dict[str, str] = {}
        """Problem of each damaged checkpoint that `load` skipped, by the checkpoint's name."""
        self.has_loaded = False
        """Whether `load` has loaded a checkpoint. A checkpoint of iteration 0 holds imported weights."""
        self._pending: Position | None = None
        self._writer = ShardWriter(declare(trainer.stage.model, trainer.vocabulary_rows))
        trainer.engine.checkpoint_engine = self._writer
        # DeepSpeed would copy recovery scripts beside the checkpoint, but they cannot read a pipeline checkpoint.
        trainer.engine._copy_recovery_script = lambda _path: None

    def load(self, compare_replicas: Callable[[int], None] = lambda _iteration: None) -> Position:
        """Load the newest good checkpoint, whatever its layout, and return its position. Collective.

        Damaged checkpoints are skipped and listed in `damaged`. If the training has no checkpoint, seed every random
        number generator and return the start of the training.

        `compare_replicas` gets the iteration of a loaded checkpoint and compares the copies of its state on all ranks,
        collectively. If this function raises DriftError, the checkpoint is damaged.

        Raises:
            CheckFailedError: every checkpoint is damaged.
            ConfigError, InputError: the checkpoint does not fit the trainer (see `load_checkpoint`).
            ResourceError, TryAgainError: a file cannot be read at the moment.
        """
        trainer, store = self._trainer, self._store
        found = newest_good(
            store.folder,
            lambda manifest: continues(manifest, self._identity, self._index),
            partial(self._load, compare_replicas),
        )
        self.damaged, store.damaged = found.damaged, frozenset(found.damaged)
        manifest = found.manifest
        if manifest is None:
            seed_all(trainer.stage.seed)
            return START
        self.has_loaded = True
        store.newest = step_name(manifest.iteration)
        self.changed = changes_since(manifest, trainer.stage)
        self.changed_versions = from_rank_0(lambda: changed_versions(manifest.versions, software_versions()))
        self._changes = [*manifest.changes, *self.changed]
        self._repairs = manifest.repairs
        return Position.of(manifest)

    def _load(self, compare_replicas: Callable[[int], None], manifest: CheckpointManifest) -> str | None:
        """Load a checkpoint whose files match its manifest, and check the loaded state. Collective.

        Returns:
            What is damaged, equal on every rank, or None if the checkpoint is good.

        Raises:
            ConfigError: the checkpoint does not fit the trainer.
            ResourceError, TryAgainError: a file cannot be read at the moment.
        """
        trainer, name = self._trainer, step_name(manifest.iteration)
        folder = self._store.folder / name

        def load() -> None:
            check_needed_files(folder, manifest)
            load_checkpoint(trainer, folder, manifest, verified=True)
            if (tensor := not_finite_in_trainer(trainer)) is not None:
                raise CheckFailedError(f"{tensor} is not finite", where=str(folder), expected="finite values")
            self._restore_random_states(folder, manifest)

        def compare_logits() -> None:
            continuity = check_continuity(trainer, folder, manifest)
            if trainer.mesh.rank == 0:
                say(f"loaded {name}: {continuity}")

        def compare_copies() -> None:
            try:
                compare_replicas(manifest.iteration)
            except DriftError as error:
                # Leave out the nodes of `error`. They loaded the checkpoint, but other nodes may have saved it.
                raise DriftError(error.what, where=str(folder), expected=how_to_repair(folder)) from error

        for check in (load, compare_copies, compare_logits):
            if (problem := damage_on_any_rank(check)) is not None:
                changed = from_rank_0(lambda: changed_versions(manifest.versions, software_versions()))
                return f"{problem}; saved with other software: {', '.join(changed)}" if changed else problem
        return None

    def _restore_random_states(self, folder: Path, manifest: CheckpointManifest) -> None:
        """Restore the generator states of this rank, or those of rank 0 if the checkpoint has none for this rank.

        Raises:
            CheckFailedError: the file is damaged although its hash matches.
        """
        for rank in (self._trainer.mesh.rank, 0):
            if (name := random_file(rank)) in manifest.files:
                try:
                    restore_random_states(load_file(folder / name), self._trainer.mesh.device)
                except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, IndexError) as error:
                    raise CheckFailedError(
                        "the file does not hold the states of random number generators",
                        where=str(folder / name),
                        expected="the file as the training wrote it",
                    ) from error
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
            DamagedStateError: the state is not finite on some rank. Older checkpoints are unchanged.
            ResourceError: the disk has too little space, or a rank could not write. Older checkpoints are unchanged.
        """
        self.finish()
        trainer, mesh, iteration = self._trainer, self._trainer.mesh, position.iteration
        name, work = step_name(iteration), self._store.work(iteration)
        if from_rank_0(lambda: self._is_saved(position)):
            return name
        from_rank_0(lambda: self._store.begin(iteration, self._expected_bytes()))
        self._writer.begin(work, background=not wait)
        if mesh.data_rank != 0:
            # DeepSpeed saves the weights of replica 0 only.
            self._writer.note_not_finite(not_finite_weight(trainer))
        if isinstance(optimizer := trainer.engine.optimizer.optimizer, Lamb):
            optimizer.save_sums()
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.engine.save_checkpoint(str(work.parent), tag=name, save_latest=False)
        if (reference := compute_reference(trainer, self._samples, self._index.vocabulary_size)) is not None:
            tensors, metadata = reference_tensors(reference)
            self._writer.save_tensors(tensors, work / REFERENCE_NAME, metadata)
        self._writer.save_tensors(random_states(mesh.device), work / random_file(mesh.rank))
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
            DamagedStateError: the state is not finite on some rank. Older checkpoints are unchanged.
            ResourceError: a rank could not write. Older checkpoints are unchanged.
        """
        if self._pending is None:
            return None
        position, self._pending = self._pending, None
        self._writer.join()
        written = from_every_rank(lambda: _written(self._writer))
        not_finite = [(rank, each.not_finite) for rank, each in enumerate(written) if each.not_finite is not None]
        if not_finite:
            from_rank_0(self._store.give_up)
            raise not_finite_error(not_finite, position.iteration)
        from_rank_0(lambda: self._seal(position, written))
        return step_name(position.iteration)

    def _is_saved(self, position: Position) -> bool:
        """Whether a good checkpoint of this training at `position` exists."""

        def is_this(manifest: CheckpointManifest) -> bool:
            same = manifest.consumed_samples == position.consumed_samples
            return same and continues(manifest, self._identity, self._index)

        return self._store.has(position.iteration, is_this)

    def _expected_bytes(self) -> int:
        """Return the planned size of a checkpoint in bytes."""
        trainer, sets = self._trainer, len(self._index.validation_sets)
        return checkpoint_size(trainer.stage.model, trainer.stage.training, trainer.vocabulary_rows, sets).total

    def _seal(self, position: Position, written: list[_Written]) -> None:
        """Do rank 0's part of `finish`: seal the checkpoint, or give it up if a rank could not write."""
        try:
            with explained(self._store.folder):
                for each in written:
                    if each.error is not None:
                        raise OSError(*each.error)
                self._store.seal(
                    self._manifest(position, {name: entry for each in written for name, entry in each.files.items()})
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
            repairs=self._repairs,
            tensor_parallel=parallel.tensor,
            pipeline_parallel=parallel.pipeline,
            data_parallel=parallel.data,
            sequence_parallel=parallel.sequence_parallel,
            stage_layers=list(trainer.network.parts),
            vocabulary_size=index.vocabulary_size,
            vocabulary_rows=trainer.vocabulary_rows,
            layers=layer_count(trainer.stage.model),
            versions=software_versions(),
            files=dict(sorted(files.items())),
        )


def _written(writer: ShardWriter) -> _Written:
    """Return the result of this rank's writes, in a form that can be sent to other ranks."""
    problem = writer.problem
    if isinstance(problem, NotFiniteError):
        return _Written(writer.files, str(problem), None)
    if isinstance(problem, OSError):
        return _Written(writer.files, None, (problem.errno or 0, problem.strerror or str(problem)))
    error = None if problem is None else (0, f"{type(problem).__name__}: {problem}")
    return _Written(writer.files, None, error)
