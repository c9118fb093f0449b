"""Import a transformers model as a checkpoint of any layout, and prove that the checkpoint computes the same logits.

The imported folder has the layout of a run's folder, so `bloomery export model` exports it like a run:

    import.json                         where the model came from, written last
    model.yaml                          keys of a configuration that trains this model further
    config/export.json                  configuration of an export
    tokenizer/                          tokenizer.json and the two files beside it
    train/checkpoints/step00000000/     the checkpoint

Memory holds one layer, whatever the size of the model.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from bloomery.base.atomic import write_json
from bloomery.base.digest import digest_json, sha256_file
from bloomery.base.errors import CheckFailedError, ConfigError, InputError
from bloomery.base.folders import atomic_folder
from bloomery.base.progress import say
from bloomery.checkpoint.optimizer_state import MASTER
from bloomery.checkpoint.reference import Reference, reference_tensors
from bloomery.checkpoint.software_versions import software_versions
from bloomery.checkpoint.weights import Checkpoint
from bloomery.checkpoint.write_checkpoint import first_manifest, write_checkpoint
from bloomery.config.delivery import ExportConfig
from bloomery.config.model import ModelConfig
from bloomery.config.stages import ExportStage, TrainStage, write_stage
from bloomery.config.training import BatchConfig, OptimizerConfig, ParallelConfig, TrainingConfig
from bloomery.contracts.checkpoint import REFERENCE_NAME, CheckpointManifest
from bloomery.contracts.initial_checkpoint import IMPORT_NAME, ImportRecord, imported_checkpoint
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_prefix import SamplePrefix
from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES
from bloomery.spec.parameters import declare
from bloomery.spec.partition import partition_problem
from bloomery.spec.placement import Parameter
from export.from_transformers.copy_tokenizer import copy_tokenizer
from export.from_transformers.fetch_source import Source, fetch_source
from export.from_transformers.find_weights import weight_files
from export.from_transformers.model_keys import write_model_keys
from export.from_transformers.read_network import CONFIG_NAME, Network, read_network
from export.from_transformers.source_weights import SourceWeights
from export.proof.comparison import compare
from export.proof.forward_model import read_out
from export.proof.split_model import SplitModel
from export.proof.written_model import WrittenModel

TOLERANCE = 1e-4
"""Largest allowed difference of a logit of the checkpoint, divided by the largest logit of transformers."""


@dataclass(frozen=True)
class Layout:
    """Layout of the checkpoint. A training of any other layout can start with it, too."""

    tensor: int = 1
    pipeline: int = 1


def import_model(
    name: str,
    output: Path,
    layout: Layout | None = None,
    *,
    precision: str | None = None,
    tokenizer: str | None = None,
) -> ImportRecord:
    """Import the transformers model `name` into the new folder `output`, which appears complete or not at all.

    Args:
        name: a folder, or `owner/name[@revision]` on a Hub.
        output: the new folder.
        layout: layout of the checkpoint. None for one rank.
        precision: `bf16`, `fp16` or `fp32`. None for the type of the weights in the source.
        tokenizer: place of the tokenizer. None for the source itself.

    Raises:
        InputError: `output` exists, or the source is not a model that Bloomery computes exactly.
        ConfigError: the network cannot be split in this layout, or the Hub refuses the token.
        CheckFailedError: the checkpoint does not compute the logits that transformers computes.
        ResourceError: the disk is full or not writable.
        TryAgainError: the Hub does not answer, or another process writes `output`.
    """
    layout = layout or Layout()
    if output.exists():
        raise InputError(
            "this path exists already",
            where=str(output),
            expected="the path of a new folder (--output); or delete this folder to import the model again",
        )
    source = fetch_source(name)
    network = read_network(source.folder)
    for key, value in sorted(network.dropout.items()):
        say(
            f"notice: {source.folder / CONFIG_NAME}: {key} is {value}; dropout is not part of the network, so set "
            f"training.dropout in the configuration of the training"
        )
    _check_layout(network.model, layout)
    weights = SourceWeights(source.folder, network, precision)
    if weights.is_rounded:
        say(f"the weights are rounded to {weights.precision}; an export will not equal the source bit for bit")
    try:
        with atomic_folder(output) as folder:
            entries = copy_tokenizer(
                tokenizer or str(source.folder), folder / "tokenizer", network.config, network.rows
            )
            record = _write(folder, output, source, weights, layout, entries)
    finally:
        weights.close()
    say(
        f"imported {record.shown} to {output}: {record.architecture}, {network.rows} embedding rows, a tokenizer of "
        f"{entries} entries, a checkpoint for tensor {layout.tensor} x pipeline {layout.pipeline} in "
        f"{weights.precision}"
    )
    return record


def _check_layout(model: ModelConfig, layout: Layout) -> None:
    """Raise ConfigError if the network cannot be split over the ranks of the layout."""
    for what, size in (("heads", model.heads), ("feed-forward features", model.ffn_size)):
        if size % layout.tensor:
            raise ConfigError(
                f"the {size} {what} of the model cannot be divided among {layout.tensor} tensor ranks",
                where="--tensor",
                expected=f"a divisor of {size}",
            )
    if model.layers < layout.pipeline or partition_problem(model, layout.pipeline, "parameters"):
        raise ConfigError(
            f"{layout.pipeline} pipeline stages are too many for {model.layers} blocks",
            where="--pipeline",
            expected=f"at most {model.layers}",
        )


def _write(
    folder: Path, output: Path, source: Source, weights: SourceWeights, layout: Layout, entries: int
) -> ImportRecord:
    """Write all files of the imported folder `output` to `folder`, `import.json` last."""
    network, name = weights.network, output.name
    # The embedding must have equally many rows on every tensor rank. Added rows are zero and masked.
    rows = -(-network.rows // layout.tensor) * layout.tensor
    sizes = {"padded_vocabulary_size": rows, "masked_rows": rows - network.rows, "vocabulary_multiple": 1}
    model = network.model.model_copy(update=sizes)
    record = _record(source, network)
    manifest = _manifest(name, model, weights.precision, layout, entries, record)
    reference = _with_added_rows(_transformers_logits(weights, entries), rows)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / REFERENCE_NAME
        tensors, metadata = reference_tensors(reference)
        save_file(tensors, path, metadata)
        checkpoint = imported_checkpoint(folder)

        def read(parameter: Parameter, kind: str, wanted: range | None) -> torch.Tensor:
            assert kind == MASTER
            return weights.part(parameter, wanted)

        write_checkpoint(checkpoint, manifest, read, copies={REFERENCE_NAME: path})
    _prove(checkpoint, reference, entries)
    export = ExportStage(name=name, model_name=name, export=ExportConfig(), model=model, licences={})
    write_stage(RunPaths(folder).config / "export.json", export)
    write_model_keys(folder / "model.yaml", record.shown, model, entries, output)
    write_json(folder / IMPORT_NAME, record.model_dump(mode="json"))
    return record


def _record(source: Source, network: Network) -> ImportRecord:
    files = [source.folder / CONFIG_NAME, *weight_files(source.folder)]
    return ImportRecord(
        source=source.name,
        endpoint=source.endpoint,
        repository=source.repository,
        commit=source.commit,
        architecture=network.family.architecture,
        vocabulary_rows=network.rows,
        files={path.name: sha256_file(path) for path in files},
    )


def _manifest(
    name: str, model: ModelConfig, precision: str, layout: Layout, entries: int, record: ImportRecord
) -> CheckpointManifest:
    """Return the manifest, without files, of a checkpoint before the first iteration.

    A training starts with it by the key `training.initial_checkpoint`. No training resumes from it, because its
    identity is that of the source. The place of a local source is not part of it.
    """
    training = TrainingConfig.model_validate(
        {
            "train_samples": 1,
            "batch": BatchConfig(global_batch_size=1),
            "optimizer": OptimizerConfig(learning_rate=1e-5),
            "precision": precision,
            "parallel": ParallelConfig(tensor=layout.tensor, pipeline=layout.pipeline),
        }
    )
    stage = TrainStage(name=name, seed=0, model=model, training=training)
    assert model.padded_vocabulary_size is not None
    return first_manifest(
        stage,
        identity=digest_json(record.model_dump(mode="json", exclude={"source"})),
        prefix=SamplePrefix(samples=0, stages=[], datasets={}),
        vocabulary_size=entries,
        vocabulary_rows=model.padded_vocabulary_size,
        versions=software_versions(),
    )


def _transformers_logits(weights: SourceWeights, entries: int) -> Reference:
    """Compute the fp32 logits of a few tokens with transformers' own modules and the weights of the source."""
    network = weights.network
    length = min(REFERENCE_LENGTH, network.model.sequence_length)
    # There is no text yet. The golden ratio spreads the tokens evenly over the vocabulary (Knuth, TAOCP 3, 6.4).
    numbers = torch.arange(REFERENCE_SAMPLES * length, dtype=torch.float64) * 0.6180339887498949
    tokens = ((numbers % 1.0) * entries).long().view(REFERENCE_SAMPLES, length)
    config: Any = network.config
    config.architectures, config.dtype = [network.family.architecture], torch.float32
    say("compute reference logits with transformers")
    parameters = declare(network.model, network.rows)
    model = WrittenModel(weights, config, network.family, parameters, network.model.heads)
    logits, _ = read_out(model, list(tokens), [], entries)
    return Reference(tokens, torch.stack(logits))


def _with_added_rows(reference: Reference, rows: int) -> Reference:
    """Return the reference with the logits of added rows. They are 0, because the rows are zero."""
    samples, length, own = reference.logits.shape
    added = torch.zeros(samples, length, rows - own)
    return Reference(reference.tokens, torch.cat((reference.logits, added), dim=-1).contiguous())


def _prove(checkpoint: Path, reference: Reference, entries: int) -> None:
    """Compare the logits of the checkpoint, computed as the training does, with those of transformers.

    Raises:
        CheckFailedError: the logits differ.
    """
    say("proof: compare the logits of the checkpoint with those of transformers")
    pieces = Checkpoint(checkpoint, verified=True)
    found = compare(SplitModel(pieces), reference, pieces.manifest.vocabulary_rows, entries, str(checkpoint))
    if not found.max_difference <= TOLERANCE:
        raise CheckFailedError(
            f"the fp32 logits of the checkpoint differ from those of transformers by up to {found.max_difference:.3g} "
            "of the largest logit",
            where="import",
            expected=f"a difference of at most {TOLERANCE:g}; nothing was written; report this error of Bloomery",
        )
