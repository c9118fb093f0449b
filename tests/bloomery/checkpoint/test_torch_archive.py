"""Compare the headers of files of `torch.save`, read without torch, with what torch reads."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from repository import ROOT

from bloomery.base.errors import InputError
from bloomery.checkpoint.files import Fragment
from bloomery.checkpoint.save_state import save_state
from bloomery.checkpoint.torch_archive import StoredTensor, TorchArchive


def _saved(path: Path, state: Any) -> Path:
    with path.open("wb") as handle:
        save_state(state, handle)
    return path


def test_types_shapes_and_values_are_those_that_torch_reads(tmp_path: Path) -> None:
    fragment = Fragment()
    fragment.start, fragment.numel = 3, 4
    state = {
        "weights": OrderedDict(a=torch.arange(12.0).view(3, 4).bfloat16(), b=torch.ones(0, 5), c=torch.tensor(7.0)),
        "plain": [1, "two", None, (3.5, True), torch.Size([2, 3])],
        "fragment": fragment,
    }
    found = TorchArchive(_saved(tmp_path / "x.pt", state))
    weights = found.state["weights"]
    assert [(each.dtype, each.shape) for each in weights.values()] == [
        ("bfloat16", (3, 4)),
        ("float32", (0, 5)),
        ("float32", ()),
    ]
    assert found.state["plain"] == [1, "two", None, (3.5, True), (2, 3)]
    assert vars(found.state["fragment"]) == {"start": 3, "numel": 4}
    first, scalar = found.read([(weights["a"], 5, 2), (weights["c"], 0, 1)])
    assert torch.frombuffer(bytearray(first), dtype=torch.bfloat16).tolist() == [5.0, 6.0]
    assert torch.frombuffer(bytearray(scalar), dtype=torch.float32).item() == 7.0


def test_checksums_are_equal_exactly_if_the_tensors_are(tmp_path: Path) -> None:
    values = torch.randn(1000)
    other = values.clone()
    other[-1] += 1
    found = TorchArchive(_saved(tmp_path / "x.pt", {"a": values, "b": values.clone(), "c": other}))
    a, b, c = (found.checksum(found.state[name]) for name in "abc")
    assert a == b != c


def test_a_file_that_holds_other_objects_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "executed",))

    torch.save({"x": Hostile()}, tmp_path / "x.pt")
    with pytest.raises(InputError, match=r"header of the file cannot be read: the file names"):
        TorchArchive(tmp_path / "x.pt")
    assert not (tmp_path / "executed").exists()


def test_a_compressed_record_is_refused(tmp_path: Path) -> None:
    whole = _saved(tmp_path / "x.pt", {"a": torch.zeros(100)})
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(tmp_path / "y.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    with pytest.raises(InputError, match="is compressed"):
        TorchArchive(tmp_path / "y.pt")


def test_a_damaged_file_is_read_or_an_input_error(tmp_path: Path) -> None:
    content = _saved(tmp_path / "x.pt", {"a": torch.zeros(20), "b": ["text", 4]}).read_bytes()
    chance, refused = random.Random(1), 0
    for number in range(1000):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        if number % 4 == 0:
            damaged = damaged[: chance.randrange(len(damaged))]
        (tmp_path / "y.pt").write_bytes(damaged)
        try:
            found = TorchArchive(tmp_path / "y.pt")
            tensors = [each for each in found.state.values() if isinstance(each, StoredTensor)]
            list(found.read([(each, 0, each.count) for each in tensors]))
        except InputError:
            refused += 1
    assert refused > 250


def test_torch_is_not_imported() -> None:
    program = (
        "import sys, training.checkpoint.inspect_checkpoint, training.checkpoint.show_inspection; "
        "print({'torch', 'deepspeed', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"
