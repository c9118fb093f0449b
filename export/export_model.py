"""Export a checkpoint as a transformers model and verify the model.

The model is written to a temporary folder, which replaces the previous model only after the logits are verified.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.folders import atomic_folder
from bloomery.base.progress import say
from bloomery.checkpoint.master_weights import MasterWeights
from bloomery.checkpoint.weights import Checkpoint
from bloomery.config.stages import ExportStage
from bloomery.contracts.file_entry import list_files
from bloomery.contracts.lineage import export_inputs
from bloomery.contracts.parity import PARITY_NAME, Parity, write_parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, new_result
from bloomery.spec.transformers_families.choose import family_for_export
from bloomery.spec.weight_files import (
    MAX_SHARD_BYTES,
    PRECISION_DTYPES,
    export_dtype,
    exported_rows,
    rounded_dtype,
)
from bloomery.spec.writing_memory import memory_of_writing
from export.card.facts import CardFacts
from export.check_target import check_target
from export.choose_checkpoint import choose_checkpoint
from export.exporting_versions import exporting_versions
from export.layers import loads_of
from export.model_card import write_card
from export.proof.comparison import Comparison
from export.proof.prove import Written, checkpoint_reference, prove
from export.transformers_model import check_tensors, transformers_config
from export.write_configs import copy_tokenizer, read_tokenizer, write_configs
from export.write_weights import WrittenFiles, write_weights

if TYPE_CHECKING:
    from bloomery.checkpoint.reference import Reference
    from bloomery.spec.transformers_families.family import Family


def export_model(
    stage: ExportStage,
    paths: RunPaths,
    target: Path,
    *,
    checkpoint_name: str | None = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> Parity:
    """Export a checkpoint into the folder `target`. It is created or replaced only if its logits match the training's.

    Args:
        stage: the export's section of the configuration.
        paths: the paths of the run.
        target: folder of the exported model. It may only exist if it is empty or an earlier export.
        checkpoint_name: name of a folder in train/checkpoints; None for the last checkpoint of the finished training.
        max_shard_bytes: largest size of a weight file.

    Raises:
        CheckFailedError: the training has not finished, the replicas in the checkpoint differ, a file differs from the
            manifest, or the logits differ. If the logits differ, the folder is renamed to `.<model>.failed` beside the
            target. It then has no parity.json.
        InputError: the checkpoint or the tokenizer is missing, is damaged, or belongs to another network, or `target`
            contains other files (`export.check_target`).
        ResourceError: the disk is full or the folder cannot be written.
    """
    check_target(target, paths.checkpoints)
    failed = target.with_name(f".{target.name}.failed")
    with atomic_folder(target) as folder:
        parity = write_model(
            stage, paths, folder, failed, checkpoint_name=checkpoint_name, max_shard_bytes=max_shard_bytes
        )
    say(exported(parity, target))
    return parity


def export_result(
    stage: ExportStage,
    paths: RunPaths,
    place: Place,
    *,
    checkpoint_name: str | None = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> Parity:
    """Export a checkpoint as the result of a run at `place`.

    If the logits differ, the previous result stays, and the folder of the new model is renamed to `failed` in
    `place.folder`. The other arguments and the errors are those of `export_model`.
    """
    with new_result(place) as new:
        folder = new.folder / stage.model_name
        folder.mkdir()
        parity = write_model(
            stage,
            paths,
            folder,
            place.folder / "failed",
            checkpoint_name=checkpoint_name,
            max_shard_bytes=max_shard_bytes,
        )
        new.known = {f"{stage.model_name}/{name}": entry for name, entry in parity.files.items()}
        new.made_from = parity.made_from
    say(exported(parity, place.shown / stage.model_name))
    return parity


def exported(parity: Parity, target: Path) -> str:
    """Return the message that reports a successful export."""
    return (
        f"exported {parity.checkpoint} to {target}: {parity.parameters:,} parameters, "
        f"logits differ from those of the training by at most {parity.max_difference:.2g} of the largest logit"
    )


def write_model(
    stage: ExportStage,
    paths: RunPaths,
    folder: Path,
    failed: Path,
    *,
    checkpoint_name: str | None,
    max_shard_bytes: int,
) -> Parity:
    """Write a checkpoint as a transformers model to the empty `folder` and verify it. parity.json is written last.

    If the logits differ, `folder` is renamed to `failed`. The errors are those of `export_model`.
    """
    checkpoint = Checkpoint(choose_checkpoint(paths, checkpoint_name), stage.model)
    reference = checkpoint_reference(checkpoint)
    family = family_for_export(stage.model)
    rows, files = _write_files(stage, paths, checkpoint, family, folder, max_shard_bytes)
    rounded_to = rounded_dtype(stage.export, checkpoint.trained_with("precision"))
    written = Written(folder, family, rows, checkpoint.manifest.vocabulary_size, files.parameters, rounded_to)
    comparison = _prove(stage, checkpoint, written, reference, failed)
    made_from = export_inputs(stage, paths, checkpoint.folder)
    name = checkpoint.folder.name
    facts = CardFacts(stage, checkpoint.manifest, name, files.parameters, rows, comparison, made_from)
    write_card(folder, facts, paths)
    parity = _parity(facts, folder, files, made_from, chosen=checkpoint_name is not None)
    write_parity(folder, parity)
    shutil.rmtree(failed, ignore_errors=True)
    return parity


def _write_files(
    stage: ExportStage, paths: RunPaths, checkpoint: Checkpoint, family: Family, folder: Path, max_shard_bytes: int
) -> tuple[int, WrittenFiles]:
    """Write tokenizer, configuration and weights; return the number of embedding rows and the written files."""
    manifest, dtype = checkpoint.manifest, _dtype(stage, checkpoint)
    tokenizer = read_tokenizer(paths.tokenizer, manifest.vocabulary_size)
    own = manifest.vocabulary_rows - stage.model.masked_rows
    if tokenizer.size > own:
        raise InputError(
            f"the embedding has {own} rows, but the tokenizer has {tokenizer.size} entries",
            where=str(checkpoint.folder),
            expected="at least one row for each entry of the tokenizer; the checkpoint and the tokenizer must be "
            "from the same training",
        )
    rows = exported_rows(stage.export, stage.model, manifest.vocabulary_rows, tokenizer.size)
    config = transformers_config(family, stage.model, rows, manifest.tensor_parallel, tokenizer, dtype)
    source = MasterWeights(checkpoint) if dtype == "float32" else checkpoint
    memory = memory_of_writing(
        stage.export,
        stage.model,
        checkpoint.trained_with("precision"),
        checkpoint.parameters,
        rows=rows,
        max_shard_bytes=max_shard_bytes,
    )
    loads = loads_of(source, checkpoint.parameters, stage.model.heads, family, dtype, rows, by_tensor=memory.by_tensor)
    tensors = [tensor for load in loads for tensor in load.tensors]
    check_tensors(config, {family.loaded_name(tensor.name): tensor.shape for tensor in tensors})
    copy_tokenizer(paths.tokenizer, folder)
    write_configs(folder, config)
    return rows, write_weights(folder, loads, dtype, max_shard_bytes, memory.threads)


def _dtype(stage: ExportStage, checkpoint: Checkpoint) -> str:
    return export_dtype(stage.export, checkpoint.trained_with("precision"))


def _prove(
    stage: ExportStage, checkpoint: Checkpoint, written: Written, reference: Reference, failed: Path
) -> Comparison:
    """Prove the written model. If it is wrong, rename its folder to `failed`, so that it can be inspected."""
    hint = None
    own, dtype = PRECISION_DTYPES[checkpoint.trained_with("precision")], _dtype(stage, checkpoint)
    if dtype not in (own, "float32"):
        hint = f"export.dtype rounds the {own} weights of the training to {dtype}; remove the key export.dtype"
    try:
        return prove(written, checkpoint, reference, stage.export.tolerance, failed=failed, hint=hint)
    except CheckFailedError:
        shutil.rmtree(failed, ignore_errors=True)
        written.folder.rename(failed)
        raise


def _parity(facts: CardFacts, folder: Path, files: WrittenFiles, made_from: dict[str, str], *, chosen: bool) -> Parity:
    comparison, manifest = facts.comparison, facts.manifest
    return Parity(
        model=facts.stage.model_name,
        checkpoint=facts.checkpoint,
        chosen=chosen,
        iteration=manifest.iteration,
        consumed_tokens=manifest.consumed_tokens,
        parameters=facts.parameters,
        dtype=facts.dtype,
        rounded_to=facts.rounded_to,
        vocabulary_rows=facts.vocabulary_rows,
        tolerance=facts.stage.export.tolerance,
        versions=exporting_versions(),
        made_from=made_from,
        files=list_files(folder, omit={PARITY_NAME}, known=files.files),
        **comparison.recorded(),
    )
