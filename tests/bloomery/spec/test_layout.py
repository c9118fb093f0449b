"""Compare rank coordinates with DeepSpeed's topology, and the replicas' samples with a direct count."""

import itertools

import pytest

from bloomery.base.errors import InputError
from bloomery.config.training import ParallelConfig
from bloomery.spec.layout import RankCoordinates, coordinates_of, micro_batch_starts, rank_of, replica_of

SIZES = [(1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 4), (2, 3, 4), (4, 12, 8)]


@pytest.mark.slow
@pytest.mark.parametrize(("tensor", "pipeline", "data"), SIZES)
def test_rank_coordinates_equal_those_of_deepspeed(tensor, pipeline, data):
    topology = pytest.importorskip("deepspeed.runtime.pipe.topology")
    theirs = topology.PipeModelDataParallelTopology(num_pp=pipeline, num_mp=tensor, num_dp=data)
    parallel = ParallelConfig(tensor=tensor, pipeline=pipeline, data=data)
    for rank in range(parallel.world_size):
        place, coordinate = coordinates_of(parallel, rank), theirs.get_coord(rank)
        assert (place.pipeline, place.data, place.tensor) == (coordinate.pipe, coordinate.data, coordinate.model)


@pytest.mark.parametrize(("tensor", "pipeline", "data"), SIZES)
def test_coordinates_are_unique_and_lead_back_to_their_rank(tensor, pipeline, data):
    parallel = ParallelConfig(tensor=tensor, pipeline=pipeline, data=data)
    places = [RankCoordinates(*each) for each in itertools.product(range(pipeline), range(data), range(tensor))]
    assert [coordinates_of(parallel, rank) for rank in range(parallel.world_size)] == places
    assert [rank_of(parallel, place) for place in places] == list(range(parallel.world_size))
    for rank in (-1, parallel.world_size):
        with pytest.raises(InputError, match=rf"0 to {parallel.world_size - 1}: tensor x pipeline x data"):
            coordinates_of(parallel, rank)


@pytest.mark.parametrize(("first", "samples", "micro", "replicas"), [(0, 24, 2, 3), (100, 16, 1, 16), (7, 32, 4, 2)])
def test_replicas_take_micro_batches_of_a_batch_in_turn(first, samples, micro, replicas):
    owner = {}
    for replica in range(replicas):
        for start in micro_batch_starts(first, samples, micro, replica, replicas):
            owner |= dict.fromkeys(range(start, start + micro), replica)
    assert sorted(owner) == list(range(first, first + samples))
    assert owner == {sample: replica_of(sample, first, micro, replicas) for sample in owner}
    in_order = [owner[sample] for sample in sorted(owner)]
    assert in_order[: micro * replicas] == [replica for replica in range(replicas) for _ in range(micro)]
