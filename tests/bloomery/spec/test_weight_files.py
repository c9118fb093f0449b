"""Test that the exported model's file names are known before training, for any size of the vocabulary."""

from __future__ import annotations

import pytest
import yaml
from repository import ROOT
from tiny_run import configuration

from bloomery.base.errors import InputError
from bloomery.checks.load_config import validate_config
from bloomery.config.delivery import ExportConfig
from bloomery.config.run import RunConfig
from bloomery.spec.parameters import parameter_count
from bloomery.spec.weight_files import (
    DTYPE_BYTES,
    INDEX_NAME,
    MAX_SHARD_BYTES,
    WEIGHTS_NAME,
    export_dtype,
    plan_shards,
    weight_files,
)

SAMPLE = yaml.safe_load((ROOT / "config/sample.yaml").read_text())


def config(layers: int, hidden: int, vocabulary: int) -> RunConfig:
    model = SAMPLE["model"] | {"layers": layers, "hidden_size": hidden}
    return validate_config(SAMPLE | {"model": model, "tokenizer": {"vocabulary_size": vocabulary}})


def test_a_small_model_is_exported_as_one_file() -> None:
    assert weight_files(config(4, 128, 2000)) == (files := weight_files(validate_config(SAMPLE)))
    assert (files.file, files.shard_bytes) == (WEIGHTS_NAME, MAX_SHARD_BYTES)


def test_a_large_model_is_exported_with_an_index() -> None:
    files = weight_files(config(70, 14336, 250_680))
    assert (files.file, files.shard_bytes) == (INDEX_NAME, MAX_SHARD_BYTES)


def test_a_model_with_a_large_vocabulary_gets_an_index_for_any_tokenizer() -> None:
    between = config(30, 2560, 250_680)
    files = weight_files(between)
    assert files.file == INDEX_NAME
    assert files.shard_bytes < parameter_count(between.model, 460) * 2 < MAX_SHARD_BYTES


def test_weights_are_split_for_any_number_of_tokenizer_entries() -> None:
    large = {"model": {"layers": 1, "hidden_size": 8192, "heads": 64, "sequence_length": 128}}
    config = configuration(large, existing="owner/name")
    found = weight_files(config)
    assert found.file == INDEX_NAME
    fewest = parameter_count(config.model, 1) * DTYPE_BYTES[export_dtype(config.export, config.training.precision)]
    assert found.shard_bytes < fewest
    assert weight_files(configuration(existing="owner/name")).file == WEIGHTS_NAME


def test_the_exported_data_type_follows_the_precision() -> None:
    chosen = [export_dtype(ExportConfig(), precision) for precision in ("bf16", "fp16", "fp32")]
    assert chosen == ["bfloat16", "float16", "float32"]
    assert export_dtype(ExportConfig(dtype="bfloat16"), "fp32") == "bfloat16"


@pytest.mark.parametrize(
    ("sizes", "limit", "shards"),
    [
        ([3, 3, 3], 9, [range(0, 3)]),
        ([3, 3, 3], 6, [range(0, 2), range(2, 3)]),
        ([9, 1, 9], 5, [range(0, 1), range(1, 2), range(2, 3)]),
        ([1], 1, [range(0, 1)]),
    ],
)
def test_shards_are_filled_in_order_up_to_the_limit(sizes: list[int], limit: int, shards: list[range]) -> None:
    assert plan_shards(sizes, limit) == shards


def test_a_shard_limit_of_zero_is_refused() -> None:
    with pytest.raises(InputError):
        plan_shards([1], 0)
