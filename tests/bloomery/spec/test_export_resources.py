"""Test what the job of an export requests."""

from __future__ import annotations

from collections import Counter

import pytest
from changed_sample import changed
from repository import ROOT

from bloomery.checks.load_config import load_config, validate_config
from bloomery.config.run import RunConfig
from bloomery.spec.export_resources import proof_memory_bytes, resources_of_export
from bloomery.spec.parameters import declare, planned_rows
from bloomery.spec.weight_files import DTYPE_BYTES, export_dtype, weight_files
from export.write_weights import plan_shards

GIB = 1 << 30
GPTS = (
    "sample",
    "udhr",
    "wikipedia",
    *(f"models/{name}" for name in ("tr1-13b", "tr11-350m", "tr11-760m", "tr11-1b3", "tr11-6b3", "tr11-176b")),
)


def test_bloom_needs_memory_for_one_layer_and_not_for_the_model(bloom: RunConfig) -> None:
    needs = resources_of_export(bloom)
    layer, embedding = 2_466_437_120, 250_880 * 14_336
    assert 4 * layer < needs.memory_bytes < 4 * embedding + 4 * layer + 8 * GIB
    assert needs.memory_bytes < 36 * GIB
    assert needs.memory_mb == -(-needs.memory_bytes // 10**6)
    assert needs.threads == 16
    # 352 GB are read once, written once and read again; no machine does this in half an hour.
    assert 3600 < needs.seconds < 86_400


def test_the_memory_does_not_depend_on_the_number_of_layers_and_the_time_does() -> None:
    few, many = (
        resources_of_export(validate_config(changed(model__layers=layers, model__hidden_size=2048), where="my.yaml"))
        for layers in (8, 4800)
    )
    assert few.memory_bytes == many.memory_bytes
    assert few.seconds < many.seconds
    assert few.minutes == 30


def test_fp32_weights_need_more_memory_than_bf16_weights() -> None:
    bf16, fp32 = (
        resources_of_export(validate_config(changed(export__dtype=dtype, model__hidden_size=4096), where="my.yaml"))
        for dtype in (None, "float32")
    )
    assert fp32.memory_bytes > bf16.memory_bytes


def memory_limit(config: RunConfig) -> int:
    """Return the largest resident memory that an export may have: one layer in fp32, one weight file and 1 GiB."""
    rows = planned_rows(config)
    item = DTYPE_BYTES[export_dtype(config.export, config.training.precision)]
    layers: Counter[int] = Counter()
    for parameter in declare(config.model, rows):
        if parameter.name.startswith("h."):
            layers[parameter.layer] += parameter.count
    sizes = [item * parameter.count for parameter in declare(config.model, rows)]
    shards = plan_shards(sizes, weight_files(config).shard_bytes)
    return 4 * max(layers.values()) + max(sum(sizes[number] for number in shard) for shard in shards) + GIB


@pytest.mark.parametrize("name", GPTS)
def test_the_memory_of_the_proof_obeys_the_limit(name: str) -> None:
    config = load_config(ROOT / "config" / f"{name}.yaml")
    assert proof_memory_bytes(config) <= memory_limit(config)


def test_the_limit_of_bloom_is_16_9_gib(bloom: RunConfig) -> None:
    # One layer of 2,466,437,120 parameters in fp32, and the embedding of 250,880 x 14,336 in bf16 in a file of its own.
    assert memory_limit(bloom) == 4 * 2_466_437_120 + 2 * 250_880 * 14_336 + GIB
    assert round(memory_limit(bloom) / GIB, 1) == 16.9
