"""Detect wrong arithmetic on one rank: compute one micro-batch again on every replica, and compare bit for bit.

A wrong gradient of one rank reaches every replica through the all-reduce. The replicas stay equal, so
`training.guards.replicas` cannot detect it. In a replay, all replicas compute the loss and the gradient of the same
micro-batch with the same weights, so ranks at the same place of the layout must compute the same bits. With a single
replica, each rank computes the micro-batch twice. This finds transient faults only, because a device with a lasting
fault repeats its wrong result.

A fault spreads from layer to layer, from stage to stage and between tensor-parallel ranks. So the ranks record a
fingerprint of each result in the order of computation, and the earliest difference shows where the fault is.

Gradients are computed with `torch.autograd.grad`, outside of DeepSpeed. So the replay changes no accumulated gradient,
counter or optimizer state. It costs the time of one micro-batch (two with a single replica), and no more memory than a
micro-batch of the training.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from bloomery.spec.parameters import declare, layer_count
from training.checkpoint.collective_calls import from_every_rank
from training.data.batches import MicroBatch
from training.guards.compare_replay import Computation, Difference, Result, first_difference
from training.guards.replicas import fingerprint, node_name
from training.loop.build_engine import Trainer


def replay(trainer: Trainer, batch: MicroBatch) -> Difference | None:
    """Compute `batch` on every replica and compare the results. Collective.

    Args:
        trainer: trainer whose replicas have equal weights.
        batch: micro-batch, which must be the same on every rank.

    Returns:
        The earliest difference in the order of computation, the same on every rank. None if all results are equal.
    """
    mesh = trainer.mesh
    first = _compute(trainer, batch)
    second = _compute(trainer, batch) if mesh.parallel.data == 1 else first
    if _agree(trainer, first, second):
        return None
    if second is first:
        # A rank whose second result differs from its first has a transient fault.
        second = _compute(trainer, batch)
    computation = Computation(node_name(), [each.result for each in first], _values(first), _values(second))
    return first_difference(mesh.parallel, from_every_rank(lambda: computation))


@dataclass(frozen=True)
class _Measured:
    """A result and its fingerprint, an int64 scalar on the rank's device."""

    result: Result
    value: torch.Tensor


def _compute(trainer: Trainer, batch: MicroBatch) -> list[_Measured]:
    """Compute the loss and the gradients of a micro-batch. Return their fingerprints. Collective over the replica."""
    mesh, network = trainer.mesh, trainer.network
    inputs, labels = (part.to(mesh.device) for part in batch)
    shape = network.boundary_shape(*inputs.shape)
    found: list[_Measured] = []

    def record(step: int, name: str, value: torch.Tensor) -> None:
        found.append(_Measured(Result(step, name), fingerprint(value)))

    def record_gradient(of: torch.Tensor, step: int, name: str) -> None:
        of.register_hook(lambda gradient: record(step, f"the gradient of {name}", gradient))  # type: ignore[no-untyped-call]

    # Step l is the forward pass of layer l, step `last` is the loss, and step 2 last - l is the backward pass of layer
    # l. Each result is recorded on the rank that computes it, and not on a rank that receives it.
    last = layer_count(trainer.stage.model)
    layers = dict(zip(network.local_modules(), network.forward_funcs, strict=True))
    with _deterministic(mesh.device), contextlib.ExitStack() as hooks:
        weights = []
        for layer, name, weight in _weights(trainer):
            weights.append(weight)
            hook = weight.register_hook(_recorded_and_freed(record, 2 * last - layer, name))  # type: ignore[no-untyped-call]
            hooks.callback(hook.remove)
        x = inputs
        if not mesh.is_first_stage:
            # DeepSpeed's pipeline uses the same pairs of ranks, so NCCL creates no additional communicators.
            x = torch.empty(shape, dtype=trainer.dtype, device=mesh.device)
            dist.recv(x, _neighbour(trainer, -1))
            x.requires_grad_()
        wanted = weights if mesh.is_first_stage else [*weights, x]
        for layer, function in layers.items():
            if x.requires_grad:
                record_gradient(x, 2 * last - layer, f"the input of pipeline layer {layer}")
            x = function(x)
            record(layer, f"the output of pipeline layer {layer}", x)
        if mesh.is_last_stage:
            record_gradient(x, last, "the logits")
            loss = network.loss_fn(x, labels)
            record(last, "the loss", loss)
            # The loss scale keeps small fp16 gradients above zero, as in training.
            gradients = torch.autograd.grad(loss * (trainer.gate.loss_scale or 1.0), wanted)
        else:
            dist.send(x.detach().contiguous(), _neighbour(trainer, 1))
            gradient = torch.empty(shape, dtype=trainer.dtype, device=mesh.device)
            dist.recv(gradient, _neighbour(trainer, 1))
            gradients = torch.autograd.grad(x, wanted, gradient)
        if not mesh.is_first_stage:
            dist.send(gradients[-1].contiguous(), _neighbour(trainer, -1))
    return sorted(found, key=lambda each: (each.result.step, each.result.name))


def _recorded_and_freed(
    record: Callable[[int, str, torch.Tensor], None], step: int, name: str
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a hook that records a parameter's gradient and replaces it by a view of one zero.

    So the gradients of all parameters are never in memory at the same time.
    """

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        record(step, f"the gradient of {name}", gradient)
        return gradient.new_zeros(()).expand_as(gradient)

    return hook


def _weights(trainer: Trainer) -> Iterator[tuple[int, str, torch.Tensor]]:
    """Yield the layer, name and tensor of each of this stage's parameters.

    The layer is the one whose backward pass completes the gradient.
    """
    modules = trainer.network.local_modules()
    for parameter in declare(trainer.stage.model, trainer.vocabulary_rows):
        owners = [layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules]
        if owners:
            yield min(owners), parameter.name, modules[owners[0]].get_parameter(parameter.local_name)


def _neighbour(trainer: Trainer, step: int) -> int:
    """Return the rank with this rank's replica and shard in the next (1) or the previous (-1) stage."""
    mesh = trainer.mesh
    return mesh.rank_of(pipeline=mesh.pipeline_rank + step, data=mesh.data_rank, tensor=mesh.tensor_rank)


@contextlib.contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """Select deterministic kernels on a GPU, where some kernels add in an arbitrary order. On a CPU, no kernel of the
    training does so."""
    if device.type != "cuda":
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _agree(trainer: Trainer, first: list[_Measured], second: list[_Measured]) -> bool:
    """Whether each rank computed the same results twice, and the replicas computed equal results. Collective.

    Each rank sends two numbers to the others.
    """
    mesh, parallel = trainer.mesh, trainer.mesh.parallel
    own = torch.stack([fingerprint(torch.stack([each.value for each in found])) for found in (first, second)])
    told = [torch.empty_like(own) for _ in range(parallel.world_size)]
    dist.all_gather(told, own)
    values = torch.stack(told).tolist()
    return all(
        len({value for data in range(parallel.data) for value in values[mesh.rank_of(pipeline=p, data=data, tensor=t)]})
        == 1
        for p in range(parallel.pipeline)
        for t in range(parallel.tensor)
    )


def _values(found: list[_Measured]) -> list[int]:
    values: list[int] = torch.stack([each.value for each in found]).tolist()
    return values
