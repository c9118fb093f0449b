"""Test that large tensors are loaded in slices, that all rows are checked, and that the written bytes are the same."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from fabricated_megatron import fabricate_layers
from fabricated_training import stage
from random_checkpoint import ROWS, random_checkpoint, random_whole
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode

from bloomery.checkpoint.drift import DriftError
from bloomery.checkpoint.foreign.layer_files import LayerFiles
from bloomery.checkpoint.foreign.open_pickle import open_pickle
from bloomery.checkpoint.master_weights import MasterWeights
from bloomery.checkpoint.optimizer_state import MASTER
from bloomery.checkpoint.weights import Checkpoint
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import layer_file, write_manifest
from bloomery.contracts.file_entry import FileEntry
from bloomery.spec.gpt import head_layer
from bloomery.spec.transformers_families.choose import family_for_export
from export.layers import loads_of
from export.transform import to_transformers
from export.weight_memory import WeightMemory
from export.write_weights import Load, WrittenFiles, write_weights

WRITTEN_ROWS = 500
"""Rows that are written. The rows after them pad the vocabulary."""
HIDDEN = 32


def configuration(network: dict[str, Any], **layout: Any) -> TrainStage:
    values = stage(**layout).model_dump(mode="json")
    return TrainStage.model_validate(values | {"model": values["model"] | network})


def add_tied_copy(checkpoint: Checkpoint) -> Checkpoint:
    """Add layer files of the tied head, as a training with several stages may write them."""
    folder, names = checkpoint.folder, []
    for rank in range(checkpoint.ranks):
        names.append(layer_file(head_layer(checkpoint.model), rank))
        shutil.copy(folder / layer_file(0, rank), folder / names[-1])
    return with_files(checkpoint, names)


def with_files(checkpoint: Checkpoint, names: list[str]) -> Checkpoint:
    """List new or changed files in the manifest, and open the checkpoint again."""
    files = checkpoint.manifest.files | {name: FileEntry.of(checkpoint.folder / name) for name in names}
    write_manifest(checkpoint.folder, checkpoint.manifest.model_copy(update={"files": files}))
    return Checkpoint(checkpoint.folder)


def edit(checkpoint: Checkpoint, layer: int, rank: int, row: int) -> Checkpoint:
    """Change one row of the only tensor in a file, as if it had been wrong when the manifest was written."""
    name = layer_file(layer, rank)
    state = torch.load(checkpoint.folder / name, weights_only=True)
    (tensor,) = state.values()
    tensor[row] += 1
    torch.save(state, checkpoint.folder / name)
    return with_files(checkpoint, [name])


def loads(
    checkpoint: Checkpoint, dtype: str, slice_rows: int, rows: int = WRITTEN_ROWS, *, by_tensor: bool = False
) -> list[Load]:
    source = MasterWeights(checkpoint) if dtype == "float32" else checkpoint
    return loads_of(
        source,
        checkpoint.parameters,
        checkpoint.model.heads,
        family_for_export(checkpoint.model),
        dtype,
        rows,
        by_tensor=by_tensor,
        slice_bytes=slice_rows * HIDDEN * getattr(torch, dtype).itemsize,
    )


def write(folder: Path, checkpoint: Checkpoint, dtype: str, threads: int = 2, **settings: Any) -> WrittenFiles:
    folder.mkdir()
    return write_weights(folder, loads(checkpoint, dtype, **settings), dtype, 40_000, threads)


GPT2 = {"positions": "learned", "embedding_layernorm": False}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("layout", "network", "tied_copy"),
    [
        ({}, {}, False),
        ({"tensor": 2, "pipeline": 2}, {}, True),
        ({"tensor": 4, "data": 3}, {"tied_embeddings": False}, False),
        ({"tensor": 2, "pipeline": 2, "data": 2}, GPT2 | {"tied_embeddings": False}, False),
    ],
    ids=["tp1", "tp2-pp2-tied-copy", "tp4-dp3-untied", "tp2-pp2-dp2-gpt2-untied"],
)
def test_the_bytes_do_not_depend_on_slices_and_threads(tmp_path, layout, network, tied_copy, dtype):
    checkpoint = random_checkpoint(tmp_path / "checkpoint", configuration(network, **layout))
    checkpoint = add_tied_copy(checkpoint) if tied_copy else checkpoint
    whole = write(tmp_path / "whole", checkpoint, dtype, slice_rows=ROWS)
    for slice_rows, threads, by_tensor in ((1, 2, False), (77, 2, True), (150, 1, True), (191, 1, False)):
        folder, again = tmp_path / f"{slice_rows}", Checkpoint(checkpoint.folder)
        assert write(folder, again, dtype, threads, slice_rows=slice_rows, by_tensor=by_tensor) == whole
    family, found = family_for_export(checkpoint.model), {}
    for name in whole.files:
        found |= load_file(tmp_path / "whole" / name)
    assert len(found) == len(checkpoint.parameters)
    for parameter in checkpoint.parameters:
        target = family.target(parameter)
        expected = random_whole(parameter, MASTER).to(getattr(torch, dtype))
        expected = expected[:WRITTEN_ROWS] if len(expected) == ROWS else expected
        expected = to_transformers(expected, target.transform, checkpoint.model.heads)
        assert torch.equal(found[family.saved_name(target.name)], expected), parameter.name


@pytest.mark.parametrize("rows", [WRITTEN_ROWS, ROWS])
@pytest.mark.parametrize("row", [0, ROWS // 2 - 1])
def test_a_tied_copy_is_compared_in_all_rows_and_in_each_row_once(tmp_path, monkeypatch, rows, row):
    checkpoint = add_tied_copy(random_checkpoint(tmp_path / "checkpoint", configuration({}, tensor=2, pipeline=2)))
    compared = []

    def count(first: torch.Tensor, second: torch.Tensor) -> bool:
        compared.append(len(first))
        return torch.equal(first, second)

    with monkeypatch.context() as patched:
        patched.setattr("bloomery.checkpoint.weights.bits_equal", count)
        write(tmp_path / "equal", checkpoint, "bfloat16", slice_rows=100, rows=rows)
    assert sum(compared) == ROWS
    assert max(compared) == 100
    # The last rows of the second rank are not written if `rows` is smaller.
    edited = edit(checkpoint, head_layer(checkpoint.model), rank=1, row=row)
    with pytest.raises(DriftError, match="tied to pipeline layer"):
        write(tmp_path / "drifted", edited, "bfloat16", slice_rows=100, rows=rows)


@pytest.mark.parametrize("network", [{}, {"tied_embeddings": False}])
def test_rows_that_are_not_written_must_equal_their_master_weights_too(tmp_path, network):
    checkpoint = random_checkpoint(tmp_path / "checkpoint", configuration(network, tensor=2, data=2))
    # The head is the last tensor, so its dropped rows follow the last written row.
    layer = 0 if checkpoint.model.tied_embeddings else head_layer(checkpoint.model)
    edited = edit(checkpoint, layer, rank=1, row=-1)
    with pytest.raises(DriftError, match="differ from their fp32 master weights"):
        write(tmp_path / "drifted", edited, "float32", slice_rows=100)


class _Allocations(TorchDispatchMode):
    """Records the size in bytes of every new storage, except those of mapped files."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        found = function(*arguments, **(options or {}))
        inputs = {each.untyped_storage().data_ptr() for each in arguments if isinstance(each, torch.Tensor)}
        is_new = isinstance(found, torch.Tensor) and found.untyped_storage().data_ptr() not in inputs
        if is_new and function.overloadpacket is not torch.ops.aten.set_:
            self.sizes.append(found.untyped_storage().nbytes())
        return found


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_no_load_of_the_embedding_allocates_more_than_a_slice(tmp_path, dtype):
    settings = configuration({"tied_embeddings": False}, tensor=2, pipeline=2, data=3)
    checkpoint = random_checkpoint(tmp_path / "checkpoint", settings)
    slice_rows, rows = 50, WRITTEN_ROWS
    found = loads(checkpoint, dtype, slice_rows, rows)
    sliced = [load for load in found if len(load.reusable_counts) == 1]
    assert len(sliced) == 2 * 16
    memory = WeightMemory([])
    for load in sliced:
        with _Allocations() as allocations:
            load.load(memory)
        assert max(allocations.sizes) == load.reusable_counts[0] * getattr(torch, dtype).itemsize


def test_the_slices_of_embedding_and_head_use_the_memory_of_two_slices(tmp_path):
    checkpoint = random_checkpoint(tmp_path / "checkpoint", configuration({"tied_embeddings": False}))
    sliced = [load for load in loads(checkpoint, "bfloat16", 50, ROWS) if len(load.reusable_counts) == 1]
    assert len(sliced) == 2 * 16
    memory = WeightMemory(2 * count for load in sliced for count in load.reusable_counts)
    used, written = set(), []
    for load in sliced:
        loaded = load.load(memory)
        used |= {tensor.untyped_storage().data_ptr() for tensor in loaded}
        for tensor in written:
            memory.give(tensor)
        written = loaded
    # The last slice of the embedding has only 18 rows, but it uses the memory of a whole slice.
    assert len(used) == 2


def test_files_that_cannot_be_mapped_are_not_read_for_each_slice(tmp_path, monkeypatch):
    opened, written = Counter[str](), {}

    def count(path: Path) -> Any:
        opened[path.name] += 1
        return open_pickle(path)

    monkeypatch.setattr("bloomery.checkpoint.foreign.layer_files.open_pickle", count)
    for zipped, readings in ((True, 12 + 1), (False, 1 + 1)):
        made = fabricate_layers(tmp_path / f"zipped-{zipped}", zipped=zipped)
        checkpoint = LayerFiles(made.folder)
        assert checkpoint.is_mapped == zipped
        found = loads_of(
            checkpoint,
            checkpoint.parameters,
            checkpoint.model.heads,
            family_for_export(checkpoint.model),
            "bfloat16",
            checkpoint.rows - 1,
            slice_bytes=checkpoint.rows // 12 * 2 * checkpoint.model.hidden_size,
        )
        opened.clear()
        written[zipped] = write_weights(made.folder, found, "bfloat16", 40_000, 2)
        # The embedding's file also holds the embedding LayerNorm, which is loaded on its own.
        assert {opened[made.path(1, rank).name] for rank in range(made.ranks)} == {readings}
    assert written[True] == written[False]


@pytest.mark.parametrize("by_tensor", [False, True])
def test_threads_that_load_parts_of_a_layer_verify_and_forget_each_file_once(tmp_path, monkeypatch, by_tensor):
    checkpoint = add_tied_copy(random_checkpoint(tmp_path / "checkpoint", configuration({}, tensor=2, pipeline=2)))
    verified, forgotten, lock = Counter[str](), Counter[str](), threading.Lock()

    def verify(folder: Path, _manifest: Any, name: str) -> Path:
        with lock:
            verified[name] += 1
        return folder / name

    def forget(path: Path) -> None:
        with lock:
            forgotten[path.name] += 1

    monkeypatch.setattr("bloomery.checkpoint.weights.verify_file", verify)
    monkeypatch.setattr("bloomery.checkpoint.weights.forget_pages", forget)
    write(tmp_path / "out", checkpoint, "bfloat16", slice_rows=10, by_tensor=by_tensor)
    files = {name for name in checkpoint.manifest.files if name.startswith("layer_")}
    assert verified == forgotten == dict.fromkeys(files, 1)


def test_memory_holds_one_load_for_each_thread_and_one_more(tmp_path):
    checkpoint = random_checkpoint(tmp_path / "checkpoint", configuration({}))
    held = most = 0
    lock = threading.Lock()

    class Counted(WeightMemory):
        def take(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
            nonlocal held, most
            with lock:
                held += 1
                most = max(most, held)
            return super().take(shape, dtype)

        def give(self, tensor: torch.Tensor) -> None:
            nonlocal held
            with lock:
                held -= 1
            super().give(tensor)

    for threads in (1, 2):
        held = most = 0
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("export.write_weights.WeightMemory", Counted)
            folder = tmp_path / str(threads)
            folder.mkdir()
            slices = [load for load in loads(checkpoint, "bfloat16", 10, ROWS) if len(load.reusable_counts) == 1]
            write_weights(folder, slices, "bfloat16", 1 << 30, threads)
        assert held == 0
        assert most <= threads + 1
