"""Test the copies of a state in host memory. Pinned memory needs a GPU, so it is used here only where it must fail."""

from __future__ import annotations

import io
from collections import OrderedDict
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch

from training.checkpoint.copy_to_host import HostCopies, on_host
from training.checkpoint.shard_writer import ShardWriter


class _Stage(Enum):
    ONE = 1


def _state() -> dict[str, Any]:
    whole = torch.arange(12.0)
    return {
        "view": whole[3:6],
        "transposed": whole.view(3, 4).t(),
        "bf16": torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16),
        "scalar": torch.tensor(7),
        "weight": torch.nn.Parameter(torch.ones(2)),
        "nested": OrderedDict(parts=[(torch.zeros(2), 5)], stage=_Stage.ONE, counts=[1, 2]),
    }


def _tensors(state: dict[str, Any]) -> list[torch.Tensor]:
    """Return all tensors in the order of their names."""
    tensors = [state[name] for name in sorted(state) if isinstance(state[name], torch.Tensor)]
    return [*tensors, state["nested"]["parts"][0][0]]


@torch.no_grad()
def test_a_copy_keeps_the_values_while_training_changes_the_state() -> None:
    state, copies = _state(), HostCopies()
    copy = copies.add(state)
    copies.wait()
    expected = _state()
    for tensor in _tensors(state):
        tensor.fill_(99)
    state["nested"]["counts"].append(3)
    for found, value in zip(_tensors(copy), _tensors(expected), strict=True):
        assert (found.dtype, found.shape, found.requires_grad) == (value.dtype, value.shape, False)
        assert torch.equal(found, value)
        # torch.save writes the whole buffer of a tensor.
        assert found.untyped_storage().nbytes() == found.nbytes
    nested = copy["nested"]
    assert isinstance(nested, OrderedDict)
    assert (nested["parts"][0][1], nested["stage"], nested["counts"]) == (5, 1, [1, 2])


@pytest.mark.parametrize("background", [False, True])
def test_equal_states_are_written_as_equal_bytes(tmp_path: Path, background: bool) -> None:
    """A loaded optimizer has its keys in another order, and its equal strings may be different objects."""
    kind = "".join(["exp", "_avg"])
    saved = {
        "state": {0: {"exp_avg": torch.ones(2), "step": torch.tensor(3.0)}, 1: {}},
        "kinds": ["exp_avg", "exp_avg"],
    }
    loaded = {"kinds": [kind, "exp_avg"], "state": {1: {}, 0: {"step": torch.tensor(3.0), kind: torch.ones(2)}}}
    files = []
    for number, state in enumerate((saved, loaded)):
        writer = ShardWriter()
        writer.begin(tmp_path, background=background)
        writer.save(state, str(tmp_path / f"{number}.pt"))
        writer.end()
        writer.join()
        assert writer.problem is None
        files.append((tmp_path / f"{number}.pt").read_bytes())
    assert files[0] == files[1]


def test_the_order_of_an_ordered_dict_and_of_mixed_keys_is_kept() -> None:
    assert list(on_host(OrderedDict(b=1, a=2))) == ["b", "a"]
    assert list(on_host({"b": 1, 3: 2})) == ["b", 3]


def test_only_views_are_copied_for_a_file_that_is_written_at_once() -> None:
    state = _state()
    found = on_host(state)
    shared = {name: value.data_ptr() == state[name].data_ptr() for name, value in found.items() if name != "nested"}
    assert shared == {"view": False, "transposed": True, "bf16": True, "scalar": True, "weight": True}
    buffer = io.BytesIO()
    torch.save(found, buffer)
    assert torch.equal(found["view"], state["view"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="memory can be pinned on a machine with a GPU")
def test_without_pinned_memory_a_save_still_works_and_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    copies = HostCopies()
    for _ in range(2):
        assert copies.empty_like(torch.zeros(3, 2), pinned=True).shape == (3, 2)
    (said,) = capsys.readouterr().err.splitlines()
    assert "cannot pin host memory, so training waits longer for each background save: " in said


def test_the_writer_thread_starts_after_all_copies_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    wait, write = HostCopies.wait, ShardWriter._write

    def noted_wait(self: HostCopies) -> None:
        events.append("complete")
        wait(self)

    def noted_write(self: ShardWriter, path: Path, *rest: Any) -> None:
        events.append(path.name)
        write(self, path, *rest)

    monkeypatch.setattr(HostCopies, "wait", noted_wait)
    monkeypatch.setattr(ShardWriter, "_write", noted_write)
    writer = ShardWriter()
    writer.begin(tmp_path, background=True)
    weight = torch.ones(3)
    for name in ("a.pt", "b.pt"):
        writer.save({"weight": weight}, str(tmp_path / name))
    writer.end()
    weight.fill_(99)
    writer.join()
    assert writer.problem is None
    assert events == ["complete", "a.pt", "b.pt"]
    assert torch.equal(torch.load(tmp_path / "b.pt", weights_only=True)["weight"], torch.ones(3))
