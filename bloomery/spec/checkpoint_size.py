"""Compute the bytes of a checkpoint from the layout of its files, part by part.

A checkpoint is larger than one copy of the model's parameters and optimizer state:

- Each tensor-parallel rank saves its own copy of the parameters that are not split.
- The optimizer state of a tied embedding is saved by the first and by the last pipeline stage.
- ZeRO pads each group of parameters to equal parts for all replicas.
- Each file has an overhead, which matters for small models: names, zip records, DeepSpeed's configuration.
- Reference logits, states of random number generators and the manifest are saved too.

`bench/planned_sizes.py` compares the result with checkpoints of real trainings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from bloomery.base.atomic import dump_json
from bloomery.spec.deepspeed_json import deepspeed_json
from bloomery.spec.groups import engine_name, held, optimizer_groups
from bloomery.spec.memory import MASTER_BYTES, WEIGHT_BYTES, moment_count
from bloomery.spec.parameters import declare, layer_count, planned_rows
from bloomery.spec.partition import stage_bounds
from bloomery.spec.torch_file import PICKLED_NAME, PICKLED_TENSOR, PICKLED_TYPES, named_tensors_bytes, torch_file_bytes

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig
    from bloomery.config.training import OptimizerConfig, TrainingConfig
    from bloomery.spec.placement import Parameter

REFERENCE_SAMPLES = 2
REFERENCE_LENGTH = 64
"""Samples of the reference logits, and tokens of each. 2 x 64 x 250,880 rows x 4 bytes already take 128 MB."""
SUMMARY_SAMPLES = 8
"""Number of longer samples, for which the reference has a summary of the logits, if there are not more validation
sets."""
LEAST_SUMMARY_LENGTH = 64
"""Smallest number of tokens to which longer samples are cut if there are more validation sets."""
_SUMMARY_ENTRIES = 64
"""Number of logits that a summary holds for each position (`bloomery.checkpoint.reference.ENTRIES`)."""

_FLAT_ALIGNMENT = 2
"""DeepSpeed pads each replica's part of a group to a multiple of this number of elements
(nccl_start_alignment_factor)."""
_STEP_BYTES = 4
"""Bytes of Adam's step count, one fp32 number for each group."""
_GENERATOR_BYTES = 15_480
"""Bytes of a rank's random_rank_*.safetensors: the states of torch (5,056), Python (625 x 8) and NumPy (624 x 8), and
the header. On a GPU, CUDA's state adds less than 100 bytes."""
_SAFETENSORS_HEADER = 840
"""Bytes of the header of reference.safetensors, which describes 8 tensors, without the names of the longer samples."""
_SUMMARY_NAME = 20
"""Bytes of the name of a longer sample in this header, such as `validation/fr`, with its quotation marks."""
_PICKLED_SHAPE = 14
"""Bytes of the opcodes of a parameter's shape in mp_rank_*_model_states.pt (`param_shapes`)."""
_PICKLED_SLICE = 28
"""Bytes of the opcodes of a parameter's place in the flat partition (`param_slice_mappings`)."""
_PICKLED_NUMBER = 9
"""Bytes of a number in a pickled list."""
_ENGINE_STATE = 560
"""Bytes of the other keys of DeepSpeed's engine in mp_rank_*_model_states.pt, such as counters and degrees."""
_OPTIMIZER_STATE = 700
"""Bytes of the keys and settings of DeepSpeed's and torch's optimizer in *_optim_states.pt."""
_GROUP_STATE = 120
"""Bytes of the settings of one group of parameters in *_optim_states.pt."""
_MANIFEST_BYTES = 1_500
"""Bytes of a manifest without its configuration and its list of files: position, digests, layout, versions."""
_FILE_ENTRY = 130
"""Bytes of a file's entry in the manifest (size and SHA-256), without the file's name."""
_NAME_BYTES = 45
"""Mean length of a file's name in a checkpoint."""


@dataclass(frozen=True)
class CheckpointSize:
    """Bytes of the parts of one checkpoint, over all ranks."""

    weights: int
    """Weights in the precision of the training: files layer_*-model_states.pt."""
    optimizer: int
    """Master weights and the optimizer's moments in fp32: files *_optim_states.pt."""
    engine: int
    """DeepSpeed's state: files mp_rank_*_model_states.pt."""
    reference: int
    """Reference logits, with which exports and resumed trainings are verified."""
    generators: int
    """States of random number generators."""
    manifest: int

    @property
    def total(self) -> int:
        """Sum of all bytes."""
        return self.weights + self.optimizer + self.engine + self.reference + self.generators + self.manifest


def summary_shape(validation_sets: int, sequence_length: int) -> tuple[int, int]:
    """Return the number of longer samples, and the number of tokens of each of them.

    Up to `SUMMARY_SAMPLES` validation sets share this number of whole samples. If there are more sets, each has one
    sample, which is cut so that the number of positions stays the same. A sample is not cut below
    `LEAST_SUMMARY_LENGTH` tokens, so the number of positions grows if there are more sets than `sequence_length` / 8.
    """
    if validation_sets <= SUMMARY_SAMPLES:
        return SUMMARY_SAMPLES, sequence_length
    shortest = min(LEAST_SUMMARY_LENGTH, sequence_length)
    return validation_sets, max(shortest, SUMMARY_SAMPLES * sequence_length // validation_sets)


def checkpoint_size(
    model: ModelConfig, training: TrainingConfig, vocabulary_rows: int, validation_sets: int = 0
) -> CheckpointSize:
    """Return the size of one checkpoint.

    Args:
        model: the network.
        training: the training.
        vocabulary_rows: number of rows of the embedding.
        validation_sets: number of validation sets that have samples. It matters only for more than 8 sets.
    """
    parallel = training.parallel
    layout = (parallel.tensor, parallel.pipeline, parallel.data)
    settings = len(dump_json(deepspeed_json(training)))
    moments = moment_count(training.optimizer)
    weights, optimizer, engine, files = _saved(
        model,
        vocabulary_rows,
        layout,
        training.partition,
        training.precision,
        moments,
        settings,
        _saved_sums(training.optimizer),
    )
    reference = REFERENCE_SAMPLES * min(REFERENCE_LENGTH, model.sequence_length) * (vocabulary_rows * 4 + 8)
    samples, length = summary_shape(validation_sets, model.sequence_length)
    # Each position has its token, the most likely token, the logits of entries, and three other numbers.
    reference += samples * (length * (2 * 8 + (min(_SUMMARY_ENTRIES, vocabulary_rows) + 3) * 4) + _SUMMARY_NAME)
    described = len(dump_json(model.model_dump(mode="json"))) + len(dump_json(training.model_dump(mode="json")))
    files += parallel.world_size + 1
    return CheckpointSize(
        weights=weights,
        optimizer=optimizer,
        engine=engine,
        reference=reference + _SAFETENSORS_HEADER,
        generators=parallel.world_size * _GENERATOR_BYTES,
        manifest=_MANIFEST_BYTES + described + files * (_FILE_ENTRY + _NAME_BYTES),
    )


def checkpoint_bytes(config: RunConfig, validation_sets: int = 0) -> int:
    """Return the bytes of one checkpoint of a run whose tokenizer reaches the configured vocabulary size."""
    return checkpoint_size(config.model, config.training, planned_rows(config), validation_sets).total


@lru_cache(maxsize=256)
def _saved(
    model: ModelConfig,
    rows: int,
    layout: tuple[int, int, int],
    partition: str,
    precision: str,
    moments: int,
    settings: int,
    sums: int,
) -> tuple[int, int, int, int]:
    """Return the bytes of the files of weights, optimizer and engine, and the number of these files."""
    tensor, pipeline, data = layout
    declared = declare(model, rows)
    by_layer: dict[int, list[Parameter]] = {}
    for parameter in declared:
        by_layer.setdefault(parameter.layer, []).append(parameter)
    # Layers without parameters are saved too, but a tied head is only saved with its embedding.
    layers = set(range(layer_count(model))) - {layer for each in declared for layer in each.tied_layers}
    each_weight = WEIGHT_BYTES[precision]
    weights = tensor * sum(
        named_tensors_bytes(
            (each.local_name, each.shard_count(tensor) * each_weight) for each in by_layer.get(layer, [])
        )
        for layer in layers
    )
    optimizer = engine = 0
    for first, end in pairwise(stage_bounds(model, rows, pipeline, partition)):
        groups = optimizer_groups(held(declared, first, end))
        of_sums = len(groups) * sums * len(declared) * _PICKLED_NUMBER
        optimizer += tensor * data * _optimizer_file(groups, tensor, data, moments, settings + of_sums)
        names = [engine_name(each) for group in groups for each in group]
        pickled = sum(PICKLED_NAME + len(name) + _PICKLED_SHAPE for name in names)
        engine += tensor * torch_file_bytes(_ENGINE_STATE + settings + pickled, [])
    files = tensor * (len(layers) + pipeline * (data + 1))
    return weights, optimizer, engine, files


def _optimizer_file(groups: list[list[Parameter]], tensor: int, data: int, moments: int, settings: int) -> int:
    """Return the bytes of one replica's *_optim_states.pt of a stage with these groups, on one tensor-parallel rank.

    A group is cut into parts of equal size, one for each replica, so all files of a stage have the same size.
    """
    tensors, pickled = [], PICKLED_TYPES + _OPTIMIZER_STATE + settings
    for group in groups:
        unit = data * _FLAT_ALIGNMENT
        part = -(-sum(each.shard_count(tensor) for each in group) // unit) * _FLAT_ALIGNMENT
        tensors += [part * MASTER_BYTES] * (1 + moments)
        if moments:
            tensors.append(_STEP_BYTES)
        pickled += _GROUP_STATE
        # The file of a replica names only the parameters in its part.
        pickled += sum(PICKLED_NAME + len(engine_name(each)) + _PICKLED_SLICE for each in group) // data
    return torch_file_bytes(pickled + len(tensors) * PICKLED_TENSOR, tensors)


def _saved_sums(optimizer: OptimizerConfig) -> int:
    """Return how many sums of squares of each parameter every group saves: LAMB with stale norms needs them.

    They are those of the weights and of each update: 2, or 3 for `innovation`, which is the number of moments.
    """
    return moment_count(optimizer) if optimizer.kind == "lamb" and optimizer.lamb.is_stale else 0
