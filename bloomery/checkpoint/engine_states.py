"""Build the states that DeepSpeed saves besides the weights, in one process and for any layout.

Each function returns the content of one file. The structure is that of DeepSpeed 0.19 (runtime/engine.py `state` in
`_save_checkpoint` and `_save_zero_checkpoint`, runtime/bf16_optimizer.py and runtime/zero/stage_1_and_2.py
`state_dict`). A checkpoint that is written with them has the bytes that a training on the layout would save.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from bloomery.checkpoint.files import DynamicScaler, Fragment, Scaler
from bloomery.checkpoint.flat import FlatState
from bloomery.checkpoint.optimizer_state import MASTER, GroupSettings, OptimizerSettings
from bloomery.spec.batch_scaling import resolved_optimizer
from bloomery.spec.deepspeed_json import deepspeed_json
from bloomery.spec.groups import engine_name, optimizer_groups

if TYPE_CHECKING:
    from bloomery.config.training import TrainingConfig
    from bloomery.contracts.checkpoint import CheckpointManifest
    from bloomery.spec.placement import Parameter

_DEEPSPEED = "deepspeed"
"""Key of DeepSpeed's version in a manifest."""


def engine_state(held: Sequence[Parameter], manifest: CheckpointManifest, training: TrainingConfig) -> dict[str, Any]:
    """Return the state of the engine of a (pipeline stage, tensor rank): the file mp_rank_*_model_states.pt.

    Args:
        held: parameters that the stage holds (`bloomery.spec.groups.held`).
        manifest: manifest of the checkpoint, which states position, layout and versions.
        training: configuration of the training with this layout.
    """
    tensor = manifest.tensor_parallel
    shapes = [
        OrderedDict((engine_name(each), torch.Size(each.shard_shape(tensor))) for each in group)
        for group in optimizer_groups(held)
    ]
    return {
        "buffer_names": [],
        "checkpoint_parallel_dimensions": {"pp_degree": manifest.pipeline_parallel, "tp_degree": tensor},
        "data_sampler": None,
        "dp_world_size": manifest.data_parallel,
        "ds_config": deepspeed_json(training),
        "ds_version": manifest.versions.get(_DEEPSPEED),
        "frozen_param_fragments": None,
        "frozen_param_shapes": None,
        "global_samples": manifest.consumed_samples,
        "global_steps": manifest.iteration,
        "lr_scheduler": None,
        "module": None,
        "mp_world_size": tensor * manifest.pipeline_parallel,
        "optimizer": None,
        "param_shapes": shapes,
        "random_ltd": None,
        "shared_params": {},
        "skipped_steps": 0,
    }


def optimizer_state(
    flat: FlatState,
    held: Sequence[Parameter],
    replica: int,
    shard: Callable[[Parameter, str], torch.Tensor],
    settings: OptimizerSettings,
    manifest: CheckpointManifest,
    training: TrainingConfig,
) -> dict[str, Any]:
    """Return one replica's part of the optimizer state of a (pipeline stage, tensor rank): a file *_optim_states.pt.

    Args:
        flat: positions in the flat state of this stage and tensor rank.
        held: parameters that the stage holds.
        replica: number of the replica.
        shard: function that returns the tensor rank's shard of a parameter's fp32 state, contiguous. Its second
            argument is `master` or the name of a moment.
        settings: entries that do not depend on the layout.
        manifest: manifest of the checkpoint.
        training: configuration of the training with this layout.
    """
    version, bf16 = manifest.versions.get(_DEEPSPEED), training.precision == "bf16"
    by_name = {parameter.name: parameter for parameter in held}
    places = flat.slices(replica)
    masters: list[torch.Tensor] = []
    groups: list[dict[str, Any]] = []
    state: dict[int, dict[str, Any]] = {}
    paddings = [_padding(flat, number, replica, bf16) for number in range(len(places))]
    for number, (slices, members) in enumerate(zip(places, optimizer_groups(held), strict=True)):
        found = {kind: torch.zeros(flat.part_sizes[number]) for kind in (MASTER, *settings.moments)}
        for name, (start, count) in slices.items():
            skipped = _elements_before(flat, by_name[name], replica)
            for kind, values in found.items():
                values.narrow(0, start, count).copy_(shard(by_name[name], kind).flatten().narrow(0, skipped, count))
        master = found.pop(MASTER)
        # ZeRO's own wrapper (fp16, fp32) omits the padding of the master weights, but not of the moments.
        masters.append(master if bf16 else master[: len(master) - paddings[number]].clone())
        own = settings.groups.get(members[0].decays, GroupSettings(_options(members[0], training)))
        groups.append({**own.options, "params": [number]})
        state[number] = {**found, **own.counters}
    optimizer = {
        "clip_grad": training.optimizer.gradient_clipping,
        **({} if bf16 else {"dynamic_loss_scale": training.precision == "fp16", "overflow": False, "zero_stage": 1}),
        **settings.wrapper,
        "base_optimizer_state": {"param_groups": groups, "state": state},
        "ds_version": version,
        "group_paddings": paddings,
        "param_slice_mappings": [_fragments(slices, by_name) for slices in places],
        "partition_count": [flat.replicas] * len(places),
        "single_partition_of_fp32_groups": masters,
    }
    if not bf16:
        optimizer["param_alignment_paddings"] = [[0] * len(members) for members in optimizer_groups(held)]
    if "loss_scaler" in settings.wrapper:
        optimizer["loss_scaler"] = _loss_scaler(settings.wrapper["loss_scaler"])
    return {"ds_config": deepspeed_json(training), "ds_version": version, "optimizer_state_dict": optimizer}


def _options(parameter: Parameter, training: TrainingConfig) -> dict[str, Any]:
    """Return the options of a group before the first update. A training replaces them by its own when it starts."""
    optimizer = resolved_optimizer(training)
    decay = optimizer.weight_decay if parameter.decays else 0.0
    return {"lr": optimizer.learning_rate, "weight_decay": decay}


def _padding(flat: FlatState, group: int, replica: int, bf16: bool) -> int:
    """Return the number of zeros that DeepSpeed counts at the end of a replica's part of a group."""
    size, count = flat.part_sizes[group], flat.counts[group]
    if bf16:
        return size * flat.replicas - count if replica == flat.replicas - 1 else 0
    return min(size, max(0, (replica + 1) * size - count))


def _elements_before(flat: FlatState, parameter: Parameter, replica: int) -> int:
    """Return how many elements of the parameter's flattened shard the replicas before `replica` hold."""
    return next(piece.first for piece in flat.pieces(parameter) if piece.replica == replica)


def _fragments(slices: dict[str, tuple[int, int]], by_name: dict[str, Parameter]) -> OrderedDict[str, Fragment]:
    """Return the positions of the parameters in a part."""
    found: OrderedDict[str, Fragment] = OrderedDict()
    for name, (start, count) in slices.items():
        fragment = found[engine_name(by_name[name])] = Fragment()
        fragment.numel, fragment.start = count, start
    return found


def _loss_scaler(attributes: dict[str, Any]) -> Scaler:
    """Return a loss scaler with these attributes."""
    scaler = DynamicScaler() if attributes.get("dynamic") else Scaler()
    vars(scaler).update(attributes)
    return scaler
