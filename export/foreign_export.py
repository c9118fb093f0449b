"""Export a checkpoint of Megatron-DeepSpeed, which another project trained, as a transformers model.

The proof needs no reference of the training. The written model is compared with a forward pass that uses the weights of
each tensor rank, and neither transformers nor merged weights.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bloomery.base.digest import digest_json, sha256_file
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.folders import atomic_folder
from bloomery.base.progress import say
from bloomery.checkpoint.foreign.open_checkpoint import open_checkpoint
from bloomery.contracts.file_entry import FileEntry, list_files
from bloomery.contracts.foreign_source import ForeignSource, write_source
from bloomery.contracts.lineage import CHECKPOINT, TOKENIZER_INPUT
from bloomery.contracts.parity import PARITY_NAME, Parity, write_parity
from bloomery.contracts.safe_path import checked_name
from bloomery.contracts.tokenizer import TOKENIZER
from bloomery.spec.transformers_families.choose import exact_family, keys_of, nearest
from bloomery.spec.weight_files import DTYPE_BYTES, MAX_SHARD_BYTES
from bloomery.spec.writing_memory import WritingMemory, reordering_copies
from export.check_target import check_target
from export.exporting_versions import exporting_versions
from export.foreign_card import ForeignFacts, write_foreign_card
from export.layers import loads_of
from export.proof.prove import Written, prove
from export.proof.split_reference import split_reference
from export.transformers_model import check_tensors, transformers_config
from export.write_configs import TokenizerFacts, copy_tokenizer, read_tokenizer, write_configs
from export.write_weights import WrittenFiles, write_weights

if TYPE_CHECKING:
    from bloomery.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint, OnDrift
    from bloomery.spec.transformers_families.family import Family
    from export.proof.comparison import Comparison


@dataclass(frozen=True, kw_only=True)
class ForeignSettings:
    """Choices of the user."""

    tokenizer: Path | None = None
    """Folder of the tokenizer; None for a model without one."""
    dtype: str | None = None
    """Data type of the written weights, such as `bfloat16`; None for the type of the weights in the checkpoint."""
    on_drift: OnDrift | None = None
    """Value that replaces replicas that differ; None if they are an error."""
    vocabulary: Literal["keep", "trim"] = "keep"
    """Rows of the embedding that are written: all, or only those of the tokenizer's entries."""
    tolerance: float = 1e-4
    """Largest allowed difference of a logit, divided by the largest logit."""
    max_shard_bytes: int = MAX_SHARD_BYTES
    """Largest size of a weight file."""


def export_foreign(source: Path, target: Path, settings: ForeignSettings) -> Parity:
    """Export the checkpoint in the folder `source` into the folder `target`.

    `target` is created or replaced only if the logits of the written model match those of the checkpoint's pieces. It
    may only exist if it is empty or an earlier export.

    Raises:
        DriftError: replicas differ between tensor ranks, and `settings.on_drift` is None.
        CheckFailedError: a tensor has a wrong shape or type, the tokenizer does not fit, or the logits differ. If the
            logits differ, the folder is renamed to `.<name>.failed` beside the target.
        InputError: a file is missing or damaged, no class of transformers computes the network, or `target` contains
            other files (`export.check_target`).
        ResourceError: the disk is full or the folder cannot be written.
    """
    check_target(target, source)
    checkpoint = open_checkpoint(source, settings.dtype, settings.on_drift)
    family = _family(checkpoint)
    dtype = _dtype(checkpoint, settings.dtype)
    tokenizer = _tokenizer(checkpoint, settings.tokenizer)
    rows = _rows(checkpoint, settings, tokenizer)
    checkpoint.inspect()
    failed = target.with_name(f".{target.name}.failed")
    with atomic_folder(target) as folder:
        config = transformers_config(family, checkpoint.model, rows, checkpoint.ranks, tokenizer, dtype)
        files = _write(folder, checkpoint, family, config, settings, rows)
        written = Written(
            folder,
            family,
            rows,
            min(tokenizer.size, rows),
            files.parameters,
            has_tokenizer=settings.tokenizer is not None,
        )
        comparison = _prove(written, checkpoint, settings.tolerance, failed)
        record = _source(checkpoint)
        write_source(folder, record)
        parity = _parity(target.name, checkpoint, written, comparison, dtype, settings)
        write_foreign_card(folder, ForeignFacts(parity, record, family, written.has_tokenizer))
        listed = list_files(folder, omit={PARITY_NAME}, known=files.files)
        parity = parity.model_copy(update={"files": listed})
        write_parity(folder, parity)
        shutil.rmtree(failed, ignore_errors=True)
    say(
        f"exported {checkpoint.folder.name} to {target}: {parity.parameters:,} parameters, logits differ from those of "
        f"the checkpoint's unmerged weights by at most {parity.max_difference:.2g} of the largest logit"
    )
    return parity


def _family(checkpoint: ForeignCheckpoint) -> Family:
    """Return the family that computes the checkpoint's network exactly."""
    family = exact_family(checkpoint.model)
    if family is None:
        near, wanted = nearest(checkpoint.model)
        has = {key: getattr(checkpoint.model, key) for key in wanted}
        raise InputError(
            f"no class of transformers computes this network exactly: {keys_of(has)}",
            where=str(checkpoint.folder),
            expected=f"{keys_of(wanted)}, which {near.architecture} computes",
        )
    return family


def _dtype(checkpoint: ForeignCheckpoint, wanted: str | None) -> str:
    """Return the data type of the written weights."""
    own = checkpoint.dtype
    if wanted not in (None, own, "float32"):
        raise InputError(
            f"--dtype {wanted} would round the {own} weights of the checkpoint",
            where=str(checkpoint.folder),
            expected=f"--dtype {own}, --dtype float32, or no --dtype; transformers can load the model in another type",
        )
    if wanted == "float32" != own:
        say(
            f"the checkpoint holds {own} weights, which are written as float32 without change; a universal checkpoint "
            "of the same step would hold the fp32 master weights"
        )
    return wanted or own


def _tokenizer(checkpoint: ForeignCheckpoint, folder: Path | None) -> TokenizerFacts:
    """Return the facts of the tokenizer. Without a tokenizer, the checkpoint states the number of entries."""
    if folder is None:
        return TokenizerFacts(checkpoint.entries, {"bos": None, "eos": None, "pad": None})
    found = read_tokenizer(folder, checkpoint.arguments.entries)
    if found.size > checkpoint.rows:
        raise InputError(
            f"the embedding has {checkpoint.rows} rows, but the tokenizer has {found.size} entries",
            where=str(folder),
            expected="the tokenizer that the checkpoint was trained with",
        )
    return found


def _rows(checkpoint: ForeignCheckpoint, settings: ForeignSettings, tokenizer: TokenizerFacts) -> int:
    """Return the number of rows of the written embedding."""
    if settings.vocabulary == "keep":
        return checkpoint.rows
    if settings.tokenizer is None and checkpoint.arguments.entries is None:
        raise InputError(
            "the checkpoint does not state how many of its embedding rows are entries of the tokenizer",
            where=str(checkpoint.folder),
            expected="--tokenizer with --vocabulary trim, or --vocabulary keep",
        )
    return min(tokenizer.size, checkpoint.rows)


def _write(
    folder: Path, checkpoint: ForeignCheckpoint, family: Family, config: Any, settings: ForeignSettings, rows: int
) -> WrittenFiles:
    """Write tokenizer, configuration and weights."""
    dtype = str(config.dtype).removeprefix("torch.")
    memory = WritingMemory(
        parameters=checkpoint.parameters,
        rows=rows,
        item_bytes=DTYPE_BYTES[dtype],
        stored_bytes=DTYPE_BYTES[checkpoint.stored_dtype],
        has_masters=False,
        copies=reordering_copies(family),
        max_shard_bytes=settings.max_shard_bytes,
        is_mapped=checkpoint.is_mapped,
        is_rounded=checkpoint.stored_dtype != checkpoint.dtype,
        has_tied_copies=False,
    )
    loads = loads_of(
        checkpoint, checkpoint.parameters, checkpoint.model.heads, family, dtype, rows, by_tensor=memory.by_tensor
    )
    tensors = [tensor for load in loads for tensor in load.tensors]
    check_tensors(config, {family.loaded_name(tensor.name): tensor.shape for tensor in tensors})
    if settings.tokenizer is not None:
        copy_tokenizer(settings.tokenizer, folder)
    write_configs(folder, config)
    return write_weights(folder, loads, dtype, settings.max_shard_bytes, memory.threads)


def _prove(written: Written, checkpoint: ForeignCheckpoint, tolerance: float, failed: Path) -> Comparison:
    """Prove the written model. If it is wrong, rename its folder to `failed`, so that it can be inspected."""
    say("proof: compute the logits of the checkpoint's unmerged weights")
    reference = split_reference(checkpoint, written.vocabulary)
    try:
        return prove(written, checkpoint, reference, tolerance, failed=failed)
    except CheckFailedError:
        shutil.rmtree(failed, ignore_errors=True)
        written.folder.rename(failed)
        raise


def _source(checkpoint: ForeignCheckpoint) -> ForeignSource:
    finite = {name: value if math.isfinite(value) else None for name, value in checkpoint.drift.items()}
    return ForeignSource(
        layout=checkpoint.kind,
        tensor_parallel=checkpoint.ranks,
        dtype=checkpoint.dtype,
        model=checkpoint.model,
        on_drift=checkpoint.on_drift,
        drift=dict(finite),
        files=checkpoint.files,
    )


def _parity(
    name: str,
    checkpoint: ForeignCheckpoint,
    written: Written,
    comparison: Comparison,
    dtype: str,
    settings: ForeignSettings,
) -> Parity:
    """Return the content of parity.json, without the list of files."""
    no_files: dict[str, FileEntry] = {}
    made_from = {CHECKPOINT: digest_json({path: entry.sha256 for path, entry in checkpoint.files.items()})}
    if settings.tokenizer is not None:
        made_from[TOKENIZER_INPUT] = sha256_file(settings.tokenizer / TOKENIZER)
    return Parity(
        model=name,
        checkpoint=_safe_name(checkpoint.folder),
        chosen=True,
        iteration=checkpoint.arguments.iteration,
        consumed_tokens=checkpoint.arguments.consumed_tokens,
        parameters=written.parameters,
        dtype=dtype,
        vocabulary_rows=written.rows,
        tolerance=settings.tolerance,
        versions=exporting_versions(),
        made_from=made_from,
        files=no_files,
        **comparison.recorded(),
    )


def _safe_name(folder: Path) -> str:
    """Return the name of the checkpoint's folder, or `checkpoint` if parity.json cannot hold the name."""
    try:
        return checked_name(folder.resolve().name)
    except ValueError:
        return "checkpoint"
