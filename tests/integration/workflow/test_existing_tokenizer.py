"""Test a run with an existing tokenizer: it is imported, and no tokenizer is trained."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from workflow_support import Workflow

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_reader import SampleReader
from bloomery.contracts.stale_artefacts import stale_artefacts

pytestmark = pytest.mark.workflow

END = "<|endoftext|>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, show_progress=False, special_tokens=["<a>", END]
    )
    tokenizer.train_from_iterator(["all human beings are born free", "tous les êtres humains"], trainer)
    (tmp_path / "own").mkdir()
    tokenizer.save(str(tmp_path / "own/tokenizer.json"))
    return tmp_path / "own"


def test_an_existing_tokenizer_replaces_counting_and_training(
    fresh: Callable[..., Workflow], indexed: Workflow, folder: Path
) -> None:
    own = {"existing": str(folder), "end_of_document": END}
    whole = fresh().changed("tokenizer", own)
    planned = whole.planned()
    assert planned["import_tokenizer"] == 1
    assert not {"count_pretokens", "train_tokenizer"} & set(planned)
    assert {"encode", "report_tokenizer", "train_segment", "clean"} <= set(planned)
    planned = whole.planned("tokenizer")  # one stage as the target
    assert planned["import_tokenizer"] == 1
    assert not {"count_pretokens", "train_tokenizer"} & set(planned)

    # Keep the corpus of the run, and delete everything that was made with the tokenizer that the run trained.
    workflow = indexed.changed("tokenizer", own)
    run = workflow.run_folder
    for made in ("tokenizer", "index"):
        shutil.rmtree(run / made)
    workflow.run("index")
    assert (run / "tokenizer/tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert json.loads((run / "tokenizer/origin.json").read_text())["end_of_document"] == {"token": END, "id": 1}
    assert not (run / "tokenizer/counts").exists()
    reader = SampleReader(run / "index")
    assert reader.end_of_document == 1
    assert any(1 in reader.train(sample) for sample in range(50))
    assert workflow.planned("index") == {}
    assert stale_artefacts(RunPaths(run)) == {}
    # A changed tokenizer is imported again.
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes() + b"\n")
    found = {name: str(stale) for name, stale in stale_artefacts(RunPaths(run)).items()}
    assert found["tokenizer"] == "older than the imported tokenizer.json"
    assert "index" in found
    assert workflow.planned("index")["import_tokenizer"] == 1


def test_a_missing_tokenizer_is_reported_before_anything_runs(fresh: Callable[..., Workflow]) -> None:
    workflow = fresh().changed("tokenizer", {"existing": "./nowhere"})
    talk = workflow.run("--dry-run", expect=1)
    assert "./nowhere: no such file or folder; expected: " in talk
    assert "Traceback" not in talk
