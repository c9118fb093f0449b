"""Test what the job of an export requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from changed_sample import changed
from repository import ROOT

from bloomery.checks.load_config import load_config, validate_config
from bloomery.config.run import RunConfig
from bloomery.spec.export_resources import resources_of_export
from bloomery.spec.parameters import declare, planned_rows
from bloomery.spec.proof_memory import proof_memory_bytes
from bloomery.spec.weight_files import weight_files
from bloomery.spec.writing_memory import SLICE_BYTES, WritingMemory, memory_of_writing, row_slices

GIB = 1 << 30
GPTS = (
    "sample",
    "udhr",
    "wikipedia",
    *(f"models/{name}" for name in ("tr1-13b", "tr11-350m", "tr11-760m", "tr11-1b3", "tr11-6b3", "tr11-176b")),
)
BLOOM_LAYER, BLOOM_EMBEDDING = 2_466_437_120, 250_880 * 14_336
"""Numbers of elements of BLOOM-176B's block and of its embedding."""


def writing(config: RunConfig, **changes: Any) -> WritingMemory:
    rows = planned_rows(config)
    parameters = declare(config.model, rows)
    settings = {"rows": rows, "max_shard_bytes": 5_000_000_000} | changes
    return memory_of_writing(config.export, config.model, config.training.precision, parameters, **settings)


def test_bloom_needs_memory_for_one_layer_and_not_for_the_model(bloom: RunConfig) -> None:
    needs = resources_of_export(bloom)
    assert 4 * BLOOM_LAYER < needs.memory_bytes < 15 * GIB
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


def test_bloom_is_written_within_one_fp32_layer_and_one_file(bloom: RunConfig) -> None:
    memory = writing(bloom)
    # The embedding is larger than 5 GB, so it is the only tensor of its file.
    assert memory.limit_bytes == 4 * BLOOM_LAYER + 2 * BLOOM_EMBEDDING
    assert memory.threads == 1
    # One layer is loaded from mapped files, and one is written.
    assert memory.bytes_with(1) == 3 * 2 * BLOOM_LAYER
    assert memory.bytes_with(1) + GIB < 15 * GIB
    assert memory.bytes_with(2) == 5 * 2 * BLOOM_LAYER > memory.limit_bytes


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("positions", ["alibi", "learned"])
@pytest.mark.parametrize("vocabulary", [32_768, 250_880])
@pytest.mark.parametrize(
    ("hidden", "dtype"),
    [(256, None), (1024, None), (4096, None), (12_288, None), (20_480, None), (256, "float32"), (4096, "float32")],
)
def test_networks_of_all_sizes_are_written_within_the_limit(
    hidden: int, vocabulary: int, positions: str, tied: bool, dtype: str | None
) -> None:
    values = {"model__hidden_size": hidden, "model__tied_embeddings": tied, "model__positions": positions}
    values |= {"model__layers": 24, "model__padded_vocabulary_size": vocabulary, "export__dtype": dtype}
    values |= {"model__embedding_layernorm": positions == "alibi", "model__heads": 16}
    memory = writing(validate_config(changed(**values), where="my.yaml"))
    assert memory.bytes_with(memory.threads) <= memory.limit_bytes
    assert memory.threads == 2 or memory.bytes_with(2) > memory.limit_bytes


def test_tensors_are_loaded_one_by_one_if_two_layers_exceed_the_limit() -> None:
    values = {"model__heads": 128, "model__layers": 105, "model__padded_vocabulary_size": 51_200}
    wide = writing(validate_config(changed(model__hidden_size=20_480, **values), where="my.yaml"))
    assert wide.by_tensor
    assert wide.bytes_with(2) == 5 * 2 * 4 * 20_480**2
    assert not writing(validate_config(changed(model__hidden_size=8192, **values), where="my.yaml")).by_tensor


def test_mapped_files_and_master_weights_are_counted(bloom: RunConfig) -> None:
    assert not writing(bloom).by_tensor
    float32 = bloom.model_copy(update={"export": bloom.export.model_copy(update={"dtype": "float32"})})
    masters, tensor = writing(float32), 4 * 14_336**2
    assert masters.by_tensor
    # Two tensors in fp32, one mapped tensor in both types, and the copies that are compared.
    assert masters.bytes_with(1) == (2 * 4 + 2 + 4 + 2 + 4) * tensor <= masters.limit_bytes


def test_files_that_are_not_mapped_are_counted_as_a_whole(bloom: RunConfig) -> None:
    unmapped = replace(writing(bloom), is_mapped=False, has_tied_copies=False)
    # One embedding is loaded from its files, and one layer or embedding is written.
    assert unmapped.bytes_with(1) == 3 * 2 * BLOOM_EMBEDDING <= unmapped.limit_bytes
    assert unmapped.threads == 1
    # Loading the tensors one by one would read the files of a layer several times.
    assert not replace(unmapped, has_masters=True).by_tensor


def test_the_rounded_copy_of_each_thread_is_counted() -> None:
    values = {"model__hidden_size": 1024, "model__padded_vocabulary_size": 250_880, "model__heads": 16}
    exact = replace(writing(validate_config(changed(**values), where="my.yaml")), stored_bytes=4)
    rounded = replace(exact, is_rounded=True)
    # A slice has a quarter of the rows, which is more than the largest tensor of a layer.
    assert rounded.bytes_with(2) - exact.bytes_with(2) == 2 * 2 * 62_720 * 1024


def test_slices_contain_every_row_once_and_at_least_one_row(bloom: RunConfig) -> None:
    words = declare(bloom.model, 250_880)[0]
    slices = row_slices(words, 2)
    assert [row for each in slices for row in each] == list(range(250_880))
    assert max(map(len, slices)) * 14_336 * 2 <= SLICE_BYTES
    assert row_slices(words, 2, slice_bytes=1)[:2] == [range(1), range(1, 2)]
    assert row_slices(words, 2, is_mapped=False) == [range(250_880)]


@pytest.mark.parametrize("name", GPTS)
def test_the_memory_of_writing_and_proof_obeys_the_limit(name: str) -> None:
    config = load_config(ROOT / "config" / f"{name}.yaml")
    limit = writing(config, max_shard_bytes=weight_files(config).shard_bytes).limit_bytes + GIB
    assert proof_memory_bytes(config) <= resources_of_export(config).memory_bytes <= limit
