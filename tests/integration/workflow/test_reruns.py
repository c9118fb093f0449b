"""Test that a stage runs again, with its dependents, only if its output is deleted or its own section changes.

A finished training also does not run again if only keys changed that do not affect the model.
"""

from __future__ import annotations

import shutil
import time
from typing import Any

import pytest
from workflow_support import Workflow

from bloomery.spec.weight_files import MODEL_FILES, WEIGHTS_NAME

pytestmark = pytest.mark.workflow

END = {"train_segment", "finish_training", "report_training", "export_model", "publish_run", "sync_logs", "all"}
INDEX_ON = {"build_index", "verify_index"} | END
TOKENIZER_ON = {"train_tokenizer", "report_tokenizer", "encode"} | INDEX_ON
MIXTURE_ON = {"weigh_mixture", "report_corpus"} | TOKENIZER_ON
CLEAN_ON = {"clean", "count_pretokens"} | MIXTURE_ON
RESOLVE_ON = {"resolve_duplicates"} | CLEAN_ON
CONNECT_ON = {"connect_candidates", "gather_members"} | RESOLVE_ON
DEDUP_ON = {"scatter_keys", "find_candidates"} | CONNECT_ON


def test_a_second_run_has_nothing_to_do_and_ends_soon(finished: Workflow) -> None:
    before = finished.digests(".")
    start = time.monotonic()
    assert "Nothing to be done" in finished.run()
    # This takes 2 seconds on an idle machine, and longer beside the cluster's tests. bench/workflow.py measures it.
    assert time.monotonic() - start < 60
    assert finished.digests(".").items() >= {k: v for k, v in before.items() if k != ".lock"}.items()


@pytest.mark.parametrize(
    ("deleted", "rules"),
    [
        ("corpus/quarantine", {"ingest", "measure", "judge"} | DEDUP_ON),
        ("corpus/measures", {"measure", "judge"} | DEDUP_ON),
        ("corpus/verdicts", {"judge"} | DEDUP_ON),
        ("corpus/keys", DEDUP_ON),
        ("corpus/duplicates/clusters.parquet", CONNECT_ON),
        ("corpus/members", {"gather_members"} | RESOLVE_ON),
        ("corpus/duplicates/resolved-0.parquet", RESOLVE_ON),
        ("corpus/clean", CLEAN_ON),
        ("corpus/mixture.json", MIXTURE_ON),
        ("tokenizer/tokenizer.json", TOKENIZER_ON),
        ("tokenizer/tokenizer_config.json", TOKENIZER_ON),
        ("index/tokens", {"encode"} | INDEX_ON),
        ("index/index.json", INDEX_ON),
        ("index/arrays", INDEX_ON),
        ("train", END),
        ("train/segments", END),
        ("export", {"export_model", "publish_run", "all"}),
        *((f"export/tiny/{name}", {"export_model", "publish_run", "all"}) for name in (WEIGHTS_NAME, *MODEL_FILES)),
        ("published", {"publish_run", "sync_logs", "all"}),
        ("report", {"report_corpus", "report_tokenizer", "report_training", "sync_logs", "all"}),
        ("logs", set()),
        ("train/checkpoints", set()),
    ],
)
def test_a_deleted_output_is_made_again_with_everything_that_depends_on_it(
    finished: Workflow, deleted: str, rules: set[str]
) -> None:
    path, aside = finished.run_folder / deleted, finished.folder / "aside"
    shutil.move(path, aside)
    try:
        assert set(finished.planned()) == rules
    finally:
        shutil.rmtree(path, ignore_errors=True)
        shutil.move(aside, path)


def test_deleted_arrays_and_model_files_are_made_again_with_the_same_bytes(finished: Workflow) -> None:
    before = finished.digests("index/arrays", "export")
    shutil.rmtree((finished.run_folder / "index/arrays").resolve())
    (finished.run_folder / "export/tiny" / WEIGHTS_NAME).unlink()
    finished.run()
    assert finished.digests("index/arrays", "export") == before
    assert finished.planned() == {}


@pytest.mark.parametrize(
    ("key", "new", "rules"),
    [
        ("corpus.ingest.max_document_bytes", "8KiB", {"ingest", "measure", "judge"} | DEDUP_ON),
        ("corpus.language_id.min_share", 0.4, {"judge"} | DEDUP_ON),
        ("corpus.dedup.exact", False, DEDUP_ON),
        ("corpus.pii.kinds", ["ip"], CLEAN_ON),
        ("corpus.mixture.alpha", 0.9, MIXTURE_ON),
        ("tokenizer.min_frequency", 4, TOKENIZER_ON),
        ("tokenizer.report.monolingual_vocabulary", 1024, {"report_tokenizer", "check_tokenizer", "sync_logs", "all"}),
        ("tokenizer.report.gate", {"max_parity": 9.0}, {"report_tokenizer", "check_tokenizer", "sync_logs", "all"}),
        ("index.validation_share", 0.3, INDEX_ON),
        ("index.blend", [{"spread_to": 240}, {"from_sample": 80, "weights": {"en": 1}}], INDEX_ON),
        ("training.optimizer.learning_rate", 0.02, END),
        ("model.layers", 4, END),
        ("training.checkpoint.keep_last", 7, set()),
        ("export.dtype", "float32", {"export_model", "publish_run", "all"}),
        ("publish.private", False, {"publish_run", "sync_logs", "all"}),
    ],
)
def test_an_edited_section_reaches_its_stage_and_what_depends_on_it(
    finished: Workflow, key: str, new: Any, rules: set[str]
) -> None:
    assert set(finished.changed(key, new).planned()) == rules
    # With the old value, the sections have the content from which the outputs were made.
    assert finished.planned() == {}


def test_every_stage_is_a_target(finished: Workflow) -> None:
    shutil.move(finished.run_folder / "export", finished.folder / "aside")
    try:
        for target in ("corpus", "tokenizer", "index", "train"):
            assert finished.planned(target) == {}
        assert set(finished.planned("export")) == {"export_model", "export"}
        assert set(finished.planned("publish")) == {"export_model", "publish_run", "publish"}
    finally:
        shutil.move(finished.folder / "aside", finished.run_folder / "export")


def test_the_report_of_snakemake_contains_the_pages(finished: Workflow) -> None:
    page = finished.folder / "report.html"
    finished.run("--report", str(page))
    text = page.read_text()
    for label in ("Corpus: what was removed and why", "Tokenizer: tokens per language", "Parity with the training"):
        assert label in text
