"""Say which part of this rank's flat optimizer state is which part of which declared parameter.

DeepSpeed's wrappers concatenate the parameters of a group and divide them among the replicas, at any element. An
optimizer that needs whole tensors (LAMB) finds them with this map. It is built once, from the declarations alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from bloomery.checkpoint.flat import FlatState
from bloomery.config.stages import TrainStage
from bloomery.spec.groups import held
from bloomery.spec.parameters import declare
from bloomery.spec.partition import stage_bounds
from bloomery.spec.placement import Parameter
from training.parallel.mesh import Mesh


@dataclass(frozen=True)
class Segment:
    """Consecutive elements of one parameter in this rank's part of a group."""

    parameter: int
    """Index in `SegmentMap.parameters`."""
    first: int
    """First element in this rank's part of the group."""
    count: int
    is_owned: bool
    """Whether this stage owns the parameter. The other copy of a tied weight must not count in sums over the stages."""


@dataclass(frozen=True)
class SegmentMap:
    """Segments of this rank, by parameter group. Padding belongs to no segment."""

    parameters: list[Parameter]
    """All parameters of the model, in order of declaration."""
    groups: list[list[Segment]]
    """Segments of each group, in the order of the optimizer's groups."""
    tensor_rank: int
    """Tensor-parallel rank. A replicated parameter has equal segments on all tensor-parallel ranks."""
    tensor_size: int


def segment_map(stage: TrainStage, vocabulary_rows: int, mesh: Mesh) -> SegmentMap:
    """Build the map of this rank."""
    parameters = declare(stage.model, vocabulary_rows)
    number_of = {parameter.name: number for number, parameter in enumerate(parameters)}
    bounds = stage_bounds(stage.model, vocabulary_rows, mesh.parallel.pipeline, stage.training.partition)
    first, end = bounds[mesh.pipeline_rank : mesh.pipeline_rank + 2]
    flat = FlatState(held(parameters, first, end), mesh.tensor_size, mesh.parallel.data)

    def segment(name: str, start: int, count: int) -> Segment:
        number = number_of[name]
        return Segment(number, start, count, is_owned=first <= parameters[number].layer < end)

    groups = [
        [segment(name, start, count) for name, (start, count) in slices.items()]
        for slices in flat.slices(mesh.data_rank)
    ]
    return SegmentMap(parameters, groups, mesh.tensor_rank, mesh.tensor_size)
