"""Test the trust ratios of shards, and those that use the norms of the previous update."""

from __future__ import annotations

import pytest
import torch

from bloomery.config.training import OptimizerConfig
from bloomery.spec.placement import Initializer, Parameter, Placement
from training.optim.segment_map import SegmentMap
from training.optim.trust_ratio import TrustRatio

PARAMETERS = [
    Parameter("split", (4, 2), Placement.COLUMN, 0, "split", Initializer.NORMAL, decays=True),
    Parameter("whole", (4,), Placement.REPLICATED, 0, "whole", Initializer.NORMAL, decays=True),
]
SUMS = torch.tensor([[[9.0, 1.0], [4.0, 16.0]], [[16.0, 4.0], [4.0, 16.0]]], dtype=torch.float64)
"""Sums of squares of two shards: of the weights and of the update of each parameter."""


def _config(weight_decay: float = 0.01, **lamb: str) -> OptimizerConfig:
    return OptimizerConfig.model_validate(
        {"kind": "lamb", "learning_rate": 1.0, "weight_decay": weight_decay, "lamb": lamb}
    )


def _ratios(rank: int, previous: torch.Tensor | None = None, **lamb: str) -> list[float]:
    ratio = TrustRatio(_config(**lamb), SegmentMap(PARAMETERS, [], rank, 2), torch.device("cpu"))
    found: list[float] = ratio.of(SUMS, previous)[:, 0].tolist()
    return found


def test_exact_norms_add_the_shards_and_count_a_replica_once() -> None:
    assert _ratios(0, norms="exact") == _ratios(1, norms="exact") == pytest.approx([5**0.5, 0.5])


def test_each_shard_has_the_ratio_of_its_own_norms() -> None:
    assert _ratios(0, norms="shard") == [3.0, 0.5]
    assert _ratios(1, norms="shard") == [2.0, 0.5]


def test_stale_weights_are_those_of_the_average_shard_one_update_ago() -> None:
    assert _ratios(0, norms="stale_weights") == _ratios(0, norms="shard"), "the first update has no earlier norm"
    previous = torch.tensor([[50.0, 99.0], [36.0, 99.0]], dtype=torch.float64)
    assert _ratios(0, previous, norms="stale_weights") == pytest.approx([5.0, 1.5])
    assert _ratios(1, previous, norms="stale_weights") == pytest.approx([2.5, 1.5])


def test_the_floor_of_a_shard_counts_its_own_elements() -> None:
    zero = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]] * 2, dtype=torch.float64)
    for norms, right in (("shard", [4e-5, 4e-5]), ("exact", [8e-5 / 2**0.5, 4e-5])):
        ratio = TrustRatio(_config(dialect="floor", norms=norms), SegmentMap(PARAMETERS, [], 0, 2), torch.device("cpu"))
        assert ratio.of(zero, None)[:, 0].tolist() == pytest.approx(right)


def test_without_weight_decay_apex_uses_no_ratios() -> None:
    ratio = TrustRatio(_config(weight_decay=0.0), SegmentMap(PARAMETERS, [], 0, 2), torch.device("cpu"))
    assert ratio.of(SUMS, None)[:, 0].tolist() == [1.0, 1.0]


def test_replicas_have_equal_ratios_even_if_their_sums_are_rounded_differently() -> None:
    sums = SUMS.clone()
    sums[1, 1] *= 1 + 2**-40
    for norms in ("exact", "shard"):
        one, two = (
            TrustRatio(_config(norms=norms), SegmentMap(PARAMETERS, [], rank, 2), torch.device("cpu")).of(sums, None)
            for rank in (0, 1)
        )
        assert one[1, 0] == two[1, 0]
