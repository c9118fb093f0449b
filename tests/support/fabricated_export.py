"""Make checkpoints from a tiny random model of transformers by the inverse of the export's transforms.

The reference logits come from this model, too. The tests therefore compare with transformers' own forward pass.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from checkpoint_manifests import files_of
from safetensors import safe_open
from safetensors.torch import save_file

from bloomery.base.atomic import write_json
from bloomery.checkpoint.reference import LongSample, Reference, SummaryMaker, reference_tensors
from bloomery.config.delivery import ExportConfig
from bloomery.config.model import ModelConfig
from bloomery.config.stages import ExportStage, TrainStage, write_stage
from bloomery.config.training import TrainingConfig
from bloomery.contracts.checkpoint import CheckpointManifest, layer_file, step_name, write_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_prefix import SamplePrefix
from bloomery.contracts.segment import Segment, SegmentStatus, write_segment
from bloomery.spec.parameters import declare, layer_count, padded_vocabulary
from bloomery.spec.transformers_families.choose import family_for_export
from bloomery.spec.weight_files import PRECISION_DTYPES
from export.transform import to_training

LANGUAGES = {
    "code": {"documents": 3, "bytes": 900, "share": 0.3, "weight": 0.25},
    "en": {"documents": 5, "bytes": 1500, "share": 0.5, "weight": 0.5},
    "zhs": {"documents": 2, "bytes": 400, "share": 0.13, "weight": 0.15},
    "zht": {"documents": 2, "bytes": 200, "share": 0.07, "weight": 0.1},
}
SENTENCES = ["the river runs to the sea", "the sea rises to the sky", "a bird sings to the river", "the sky is a sea"]


@dataclass
class FabricatedRun:
    """A finished run with one checkpoint, and the model from which the checkpoint was made."""

    paths: RunPaths
    stage: ExportStage
    manifest: CheckpointManifest
    whole: Any
    """The model of transformers in fp32 with the weights of the checkpoint."""

    @property
    def checkpoint(self) -> Path:
        return self.paths.checkpoints / step_name(self.manifest.iteration)

    @property
    def target(self) -> Path:
        return self.paths.export / self.stage.model_name

    def with_export(self, **settings: Any) -> ExportStage:
        return self.stage.model_copy(update={"export": ExportConfig(**settings)})

    def rewrite_manifest(self) -> None:
        """List the current files in the manifest, as if the checkpoint had been wrong from the start."""
        write_manifest(self.checkpoint, self.manifest.model_copy(update={"files": files_of(self.checkpoint)}))

    def add_earlier_checkpoint(self, iteration: int) -> Path:
        """Add a checkpoint of an earlier iteration, which has the same weights and reference."""
        folder = self.paths.checkpoints / step_name(iteration)
        shutil.copytree(self.checkpoint, folder)
        earlier = {"iteration": iteration, "consumed_samples": 4 * iteration, "consumed_tokens": 128 * iteration}
        write_manifest(folder, self.manifest.model_copy(update=earlier))
        return folder

    def edit_reference(self, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
        """Change the tensors of the reference file, and list the file in the manifest."""
        path = self.checkpoint / "reference.safetensors"
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata()
        change(tensors)
        save_file(tensors, path, metadata)
        self.rewrite_manifest()

    def edit_layer(self, layer: int, rank: int, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
        path = self.checkpoint / layer_file(layer, rank)
        state = torch.load(path, weights_only=True)
        change(state)
        torch.save(state, path)
        return path


def make_tokenizer(folder: Path) -> int:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    trainer = trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **roles})
    write_json(folder / "special_tokens_map.json", roles)
    return tokenizer.get_vocab_size()


def random_model(model: ModelConfig, rows: int, dtype: torch.dtype) -> Any:
    """Return the fp32 model of transformers with random weights that are exact in `dtype`."""
    import transformers

    family = family_for_export(model)
    values = {**family.config(model), **family.fixed, "vocab_size": rows, "tie_word_embeddings": model.tied_embeddings}
    config = getattr(transformers, family.config_class)(**values)
    whole = getattr(transformers, family.architecture)(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            # Biases and norms are random too. The usual values 0 and 1 would hide tensors that are swapped or summed.
            norm = any(part in name for part in ("norm", "ln_")) and name.endswith("weight")
            value = (1.0 if norm else 0.0) + 0.2 * torch.randn(parameter.shape, generator=generator)
            parameter.copy_(value.to(dtype))
    return whole


def canonical_weights(whole: Any, model: ModelConfig, rows: int) -> dict[str, torch.Tensor]:
    """Return the weights of a transformers model in the order of the training, by canonical name."""
    family, state = family_for_export(model), whole.state_dict()
    found = {}
    for parameter in declare(model, rows):
        target = family.target(parameter)
        found[parameter.name] = to_training(state[target.name], target.transform, model.heads)
    return found


def cut(whole: Any, model: ModelConfig, rows: int, ranks: int, folder: Path, dtype: torch.dtype, tied: bool) -> None:
    """Write the layer files of every tensor-parallel rank."""
    weights = canonical_weights(whole, model, rows)
    files: dict[str, dict[str, torch.Tensor]] = {}
    for parameter in declare(model, rows):
        tensor = weights[parameter.name].to(dtype)
        for rank in range(ranks):
            shard = tensor[parameter.shard_slices(rank, ranks)].clone()
            for layer in (parameter.layer, *(parameter.tied_layers if tied else ())):
                files.setdefault(layer_file(layer, rank), {})[parameter.local_name] = shard
    for name, content in files.items():
        torch.save(content, folder / name)


def reference_of(whole: Any, entries: int) -> Reference:
    """Return the reference that a training with the weights of `whole` would write."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(4, entries, (3, 24), generator=generator)
    long = torch.randint(4, entries, (3, 32), generator=generator)
    samples = []
    with torch.no_grad():
        logits = whole(input_ids=tokens).logits.contiguous()
        for name, sample in zip(("en", "fr", "en"), long, strict=True):
            maker = SummaryMaker(sample, entries)
            maker.add(range(len(sample)), 0, whole(input_ids=sample[None]).logits[0])
            samples.append(LongSample(name, sample, maker.summary()))
    return Reference(tokens, logits, tuple(samples))


def write_logs(paths: RunPaths, iteration: int) -> None:
    paths.logs.mkdir(parents=True)
    step = {"iteration": iteration, "consumed_samples": 400, "consumed_tokens": 12800, "segment": 1}
    train = {
        "global_batch_size": 4,
        "learning_rate": 1e-3,
        "loss": 5.4321,
        "grad_norm": 1.0,
        "seconds": 0.1,
        "tokens_per_second": 1280.0,
        "tflops_hardware": 0.1,
        "tflops_model": 0.1,
        "samples_per_second": 40.0,
        "total_iterations": iteration,
    }
    time = {"time": "2026-01-01T00:00:00Z"}
    validation = {"validation": {"en": 5.25, "zhs": 6.125}, "validation_mean": 5.6875}
    lines = [json.dumps(step | time | train), json.dumps(step | time | validation)]
    (paths.logs / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))


def fabricate(
    folder: Path,
    tensor: int = 2,
    pipeline: int = 1,
    layers: int = 2,
    precision: str = "bf16",
    tied_copy: bool = False,
    network: dict[str, Any] | None = None,
) -> FabricatedRun:
    """Make a finished run in `folder`/runs/tiny. `network` has more keys of the section `model`."""
    dtype = getattr(torch, PRECISION_DTYPES[precision])
    shape = {"layers": layers, "hidden_size": 32, "heads": 4, "sequence_length": 32, "vocabulary_multiple": 16}
    model = ModelConfig.model_validate(shape | (network or {}))
    whole: Any = None

    def write(checkpoint: Path, entries: int, rows: int) -> None:
        nonlocal whole
        assert rows > entries, "the embedding must have padding rows"
        whole = random_model(model, rows, dtype)
        cut(whole, model, rows, tensor, checkpoint, dtype, tied_copy)
        write_reference(checkpoint, reference_of(whole, entries))

    paths, stage, manifest = fabricate_run(folder, model, tensor, pipeline, precision, write)
    return FabricatedRun(paths, stage, manifest, whole)


def write_reference(checkpoint: Path, reference: Reference) -> None:
    """Write the reference file of a checkpoint."""
    tensors, metadata = reference_tensors(reference)
    save_file(tensors, checkpoint / "reference.safetensors", metadata)


def fabricate_run(
    folder: Path,
    model: ModelConfig,
    tensor: int,
    pipeline: int,
    precision: str,
    write: Callable[[Path, int, int], None],
) -> tuple[RunPaths, ExportStage, CheckpointManifest]:
    """Make a finished run in `folder`/runs/tiny with one checkpoint.

    `write` gets the checkpoint's folder, the number of entries of the tokenizer and the number of embedding rows, and
    writes the weights and the reference.
    """
    paths = RunPaths(folder / "runs" / "tiny")
    entries = make_tokenizer(paths.tokenizer)
    rows = padded_vocabulary(entries, model, tensor)
    training = TrainingConfig.model_validate(
        {
            "train_samples": 400,
            "batch": {"global_batch_size": 4},
            "optimizer": {"learning_rate": 1e-3},
            "precision": precision,
            "parallel": {"tensor": tensor, "pipeline": pipeline},
        }
    )
    iteration = 100
    checkpoint = paths.checkpoints / step_name(iteration)
    checkpoint.mkdir(parents=True)
    write(checkpoint, entries, rows)
    (checkpoint / "mp_rank_00_model_states.pt").write_bytes(b"never opened")
    manifest = CheckpointManifest(
        identity="0" * 32,
        prefix=SamplePrefix(samples=400, stages=[], datasets={}),
        config=TrainStage(name="tiny", seed=1, model=model, training=training).model_dump(mode="json"),
        iteration=iteration,
        consumed_samples=400,
        consumed_tokens=12800,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        data_parallel=1,
        vocabulary_size=entries,
        vocabulary_rows=rows,
        layers=layer_count(model),
        versions={"torch": "0"},
        files=files_of(checkpoint),
    )
    write_manifest(checkpoint, manifest)
    segment = Segment(
        number=1,
        status=SegmentStatus.FINISHED,
        first_iteration=1,
        iteration=iteration,
        total_iterations=iteration,
        consumed_samples=400,
        consumed_tokens=12800,
        checkpoint=checkpoint.name,
        identity="0" * 32,
    )
    write_segment(paths.finished, segment)
    paths.corpus.mkdir(parents=True)
    write_json(paths.corpus / "mixture.json", {"languages": LANGUAGES, "sources": {}})
    write_logs(paths, iteration)
    stage = ExportStage(
        name="tiny",
        model_name="tiny-bloom",
        export=ExportConfig(),
        model=model,
        licences={"sample": "CC0-1.0"},
    )
    write_stage(paths.config / "export.json", stage)
    return paths, stage, manifest
