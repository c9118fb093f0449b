"""Test runs with existing Megatron token files, alone and together with text, up to a verified index."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from workflow_support import TINY, Workflow

from bloomery.base.digest import sha256_file
from bloomery.contracts.index import open_token_file, write_idx
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.stale_artefacts import stale_artefacts

pytestmark = pytest.mark.workflow

END = "<|endoftext|>"
WORDS = ["tous", "les", "êtres", "humains", "naissent", "libres", "et", "égaux", "en", "dignité", "droits"]


def write_tokens(folder: Path) -> dict[Path, str]:
    """Write a tokenizer with its own end-of-document token, and two pairs of one source. Return digests by path."""
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, int(rng.integers(20, 60)))) for _ in range(160)]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False, special_tokens=[END])
    )
    (folder / "tokenizer").mkdir(parents=True)
    made.save(str(folder / "tokenizer/tokenizer.json"))
    (folder / "tokenizer/tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    for name, dtype, own in (("a_text_document", "<u2", texts[:100]), ("b_text_document", "<i4", texts[100:])):
        documents = [[*made.encode(text).ids, made.token_to_id(END)] for text in own]
        lengths = np.array([len(document) for document in documents], dtype=np.int32)
        (folder / f"{name}.bin").write_bytes(np.concatenate(documents).astype(dtype).tobytes())
        write_idx(folder / f"{name}.idx", lengths, np.dtype(dtype))
    return {path: sha256_file(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def config(tokens: Path, **changes: Any) -> dict[str, Any]:
    source = {"name": "theirs", "kind": "megatron", "paths": [f"{tokens}/*.idx"], "language": "fr"}
    tokenizer = {"existing": f"{tokens}/tokenizer", "vocabulary_size": 320}
    return TINY | {"sources": [source], "tokenizer": tokenizer} | changes


def test_token_files_become_an_index_without_a_corpus(fresh: Callable[..., Workflow], tmp_path: Path) -> None:
    tokens = tmp_path / "theirs"
    before = write_tokens(tokens)
    workflow = fresh(config(tokens))
    planned = workflow.planned()
    assert planned["adopt_tokens"] == 2
    assert planned["train_segment"] == 1
    assert not {"ingest", "connect_candidates", "encode", "train_tokenizer", "report_corpus"} & set(planned)
    workflow.run("index")
    index = json.loads((workflow.run_folder / "index/index.json").read_text())
    assert [file["prefix"] for file in index["token_files"]] == ["token_files/theirs/00000", "token_files/theirs/00001"]
    links = sorted(path for path in (workflow.run_folder / "index/tokens").rglob("*") if path.is_symlink())
    assert [link.readlink().name for link in links] == [
        f"{name}_text_document{end}" for name in "ab" for end in (".bin", ".idx")
    ]
    assert open_token_file(workflow.run_folder / "index/tokens/theirs/00001").dtype == np.int32
    mixture = json.loads((workflow.run_folder / "corpus/mixture.json").read_text())
    assert mixture["languages"]["fr"]["documents"] == 160
    validation = [entry["unique_documents"] for entry in index["validation"]]
    assert 0 < sum(validation) < 160, "documents are held out by their content"
    assert {path: sha256_file(path) for path in before} == before
    assert workflow.planned("index") == {}

    # A changed file is adopted again, and a damaged file ends the run with an error.
    assert stale_artefacts(RunPaths(workflow.run_folder)) == {}
    path = tokens / "a_text_document.bin"
    path.write_bytes(path.read_bytes()[:-2])
    found = {name: str(stale) for name, stale in stale_artefacts(RunPaths(workflow.run_folder)).items()}
    assert found == dict.fromkeys(("corpus", "index"), "older than the adopted token files")
    os.utime(path)
    assert workflow.planned("index")["adopt_tokens"] == 1
    assert "a_text_document.bin: the file has" in workflow.run("index", expect=1)


def test_token_files_and_text_share_an_index(fresh: Callable[..., Workflow], tmp_path: Path) -> None:
    tokens = tmp_path / "theirs"
    write_tokens(tokens)
    own = config(tokens)
    planned = fresh(own | {"sources": [*own["sources"], *TINY["sources"]]}).planned("index")
    assert planned["adopt_tokens"] == 2
    assert planned["ingest"] == planned["encode"] > 1
    assert {"import_tokenizer", "connect_candidates", "weigh_mixture", "report_corpus"} <= set(planned)
    assert not {"train_tokenizer", "count_pretokens"} & set(planned)
    listed = json.loads((tmp_path / "runs/tiny/config/token_files.json").read_text())
    assert [name.split("/")[0] for name in listed] == ["texts"] * planned["encode"] + ["theirs"] * 2
