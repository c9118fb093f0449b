"""Test that files of other projects are read without running what they name."""

from __future__ import annotations

import io
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from fabricated_megatron import NETWORKS, fabricate_layers

from bloomery.base.errors import InputError
from bloomery.checkpoint.foreign.open_pickle import StandIn, open_pickle


class Malicious:
    """Object whose pickle calls `function` when it is loaded."""

    def __init__(self, function, *arguments):
        self._call = function, arguments

    def __reduce__(self):
        return self._call


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("function", "arguments", "name"), [(os.mkdir, 1, "mkdir"), (eval, 1, "eval"), (os.getenv, 1, "os.getenv")]
)
def test_a_file_that_calls_a_function_is_refused_and_nothing_is_run(tmp_path, zipped, function, arguments, name):
    marker = tmp_path / "ran"
    argument = f"__import__('pathlib').Path({str(marker)!r}).mkdir()" if function is eval else str(marker)
    torch.save(
        {"weight": torch.ones(2), "args": Malicious(function, argument)},
        tmp_path / "bad.pt",
        _use_new_zipfile_serialization=zipped,
    )
    with pytest.raises(InputError, match=r"does not run|read the file safely") as caught:
        open_pickle(tmp_path / "bad.pt")
    assert name in str(caught.value) or function is eval
    assert not marker.exists()
    assert torch.load(tmp_path / "bad.pt", weights_only=False)["weight"].sum() == 2
    assert marker.exists() is (function is not os.getenv), "the file must be harmful for other readers"


@pytest.mark.parametrize("zipped", [True, False])
def test_objects_of_megatron_become_stand_ins_that_keep_their_values(tmp_path, zipped):
    made = fabricate_layers(tmp_path, NETWORKS["gpt2"], zipped=zipped)
    state = open_pickle(made.folder / "mp_rank_00_model_states.pt")
    arguments = state["args"]
    assert isinstance(arguments, StandIn)
    assert arguments.values["hidden_size"] == 24
    assert arguments.values["position_embedding_type"].arguments == (2,)
    assert arguments.values["params_dtype"] is torch.bfloat16
    assert (state["iteration"], state["checkpoint_info"]["original_vocab_size"]) == (95000, 290)
    found = open_pickle(made.path(1, 1))
    assert torch.equal(found["word_embeddings.weight"], torch.load(made.path(1, 1))["word_embeddings.weight"])


def test_classes_that_another_package_declared_safe_do_not_replace_stand_ins(tmp_path):
    made = fabricate_layers(tmp_path)
    # Torch keeps all classes of a name in a set, and uses the last one. With many classes, the stand-in is seldom last.
    declared = [(type("Other", (), {}), "argparse.Namespace") for _ in range(200)]
    with torch.serialization.safe_globals(declared):
        before = torch.serialization.get_safe_globals()
        assert isinstance(open_pickle(made.folder / "mp_rank_00_model_states.pt")["args"], StandIn)
        assert set(torch.serialization.get_safe_globals()) == set(before)


@pytest.mark.parametrize("zipped", [True, False])
def test_damaged_bytes_are_either_read_or_an_input_error(tmp_path: Path, zipped) -> None:
    buffer = io.BytesIO()
    content = {"weight": torch.arange(12.0), "nested": [{"step": 3, "x": torch.zeros(2, 3)}]}
    torch.save(content, buffer, _use_new_zipfile_serialization=zipped)
    whole, drawn, damaged = buffer.getvalue(), random.Random(18), 0
    path = tmp_path / "state.pt"
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        path.write_bytes(data[: drawn.randint(0, len(data))] if drawn.random() < 0.2 else data)
        try:
            open_pickle(path)
        except InputError:
            damaged += 1
    assert damaged > 15
    path.write_bytes(whole)
    assert open_pickle(path)["nested"][0]["step"] == 3


def test_a_missing_file_is_not_taken_for_a_damaged_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_pickle(tmp_path / "absent.pt")


def test_several_threads_can_open_files_at_the_same_time(tmp_path):
    made = fabricate_layers(tmp_path)
    paths = [made.folder / "mp_rank_00_model_states.pt"] * 60
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # Threads then take turns within torch's list of safe classes.
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(open_pickle, paths))
    finally:
        sys.setswitchinterval(interval)
