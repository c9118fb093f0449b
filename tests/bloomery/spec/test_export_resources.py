"""Test what the job of an export requests."""

from __future__ import annotations

from changed_sample import changed

from bloomery.checks.load_config import validate_config
from bloomery.config.run import RunConfig
from bloomery.spec.export_resources import resources_of_export

GIB = 1 << 30


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
