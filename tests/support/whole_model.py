"""Assemble a model from the shards of its ranks, and read the gradients in a step of DeepSpeed's engine."""

from __future__ import annotations

from typing import Any

from bloomery.config.stages import TrainStage
from bloomery.spec.groups import optimizer_groups
from bloomery.spec.layout import RankCoordinates, rank_of
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Parameter


def held_here(trainer: Any) -> list[tuple[Parameter, Any]]:
    """Return the declared parameters of this rank's stage, with their tensors (shards)."""
    modules, found = trainer.network.local_modules(), []
    for parameter in declare(trainer.stage.model, trainer.vocabulary_rows):
        layers = [layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules]
        # A stage may have both a parameter and its tied copy.
        tensors = {id(t): t for layer in layers for t in [modules[layer].get_parameter(parameter.local_name)]}
        assert len(tensors) <= 1, f"{parameter.name} has several tensors in one stage"
        found += [(parameter, tensor) for tensor in tensors.values()]
    return found


def weights(trainer: Any) -> dict[str, Any]:
    """Return copies of this rank's shards by name, in the data type of the training."""
    return {parameter.name: tensor.detach().clone() for parameter, tensor in held_here(trainer)}


def step_count(optimizer: Any) -> int:
    """Return the number of updates that torch's Adam has made."""
    return max((int(state["step"]) for state in optimizer.state.values() if "step" in state), default=0)


class Gradients:
    """Record the gradients that the base optimizer gets in its next step: summed, reduced and clipped."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._base = trainer.engine.optimizer.optimizer
        self._partitions: list[Any] = []
        self._step = self._base.step
        self._base.step = self._keep

    def _keep(self, *arguments: Any, **options: Any) -> Any:
        for group in self._base.param_groups:
            (flat,) = group["params"]
            self._partitions.append(flat.grad.clone())
        return self._step(*arguments, **options)

    def take(self) -> dict[str, Any]:
        """Return the gradients of this rank's shards in the last step by name. All replicas must call this together."""
        import torch
        import torch.distributed as dist

        self._base.step = self._step
        group = self._trainer.engine.mpu.get_data_parallel_group()
        found: dict[str, Any] = {}
        tensors = {parameter.name: tensor for parameter, tensor in held_here(self._trainer)}
        members = optimizer_groups([parameter for parameter, _ in held_here(self._trainer)])
        for partition, parameters in zip(self._partitions, members, strict=True):
            parts = [torch.empty_like(partition) for _ in range(dist.get_world_size(group))]
            dist.all_gather(parts, partition, group=group)
            whole, start = torch.cat(parts), 0
            for parameter in parameters:
                shape = tensors[parameter.name].shape
                found[parameter.name] = whole[start : start + shape.numel()].view(shape).clone()
                start += shape.numel()
        return found


def assemble(stage: TrainStage, rows: int, shards: list[dict[str, Any]], exact: bool = True) -> dict[str, Any]:
    """Return the whole tensors by name, assembled from the shards of all ranks.

    Args:
        stage: configuration with the layout.
        rows: rows of the embedding.
        shards: shards of each rank, in the order of ranks.
        exact: whether all copies (of replicas, tensor ranks, tied stages) must be equal bit for bit.
    """
    import torch

    parallel, wholes = stage.training.parallel, {}
    for parameter in declare(stage.model, rows):
        copies = []
        for pipeline in range(parallel.pipeline):
            for data in range(parallel.data):
                ranks = [
                    rank_of(parallel, RankCoordinates(pipeline, data, tensor)) for tensor in range(parallel.tensor)
                ]
                parts = [shards[rank][parameter.name] for rank in ranks if parameter.name in shards[rank]]
                if not parts:
                    continue
                dimension = parameter.placement.dimension
                copies += parts if dimension is None else [torch.cat(parts, dim=dimension)]
        assert copies, parameter.name
        if exact:
            assert all(torch.equal(copies[0], copy) for copy in copies), f"copies of {parameter.name} differ"
        assert copies[0].shape == parameter.shape, parameter.name
        wholes[parameter.name] = copies[0]
    return wholes
