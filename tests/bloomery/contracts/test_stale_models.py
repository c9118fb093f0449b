"""Test the marks of models and publications of every name, and of published logs, with a fabricated run."""

from __future__ import annotations

from pathlib import Path

import pytest
from fabricated_run import configuration, make_run, write_checkpoint
from fabricated_tables import write_result, write_tables, write_tokenizer

from bloomery.base.atomic import write_json
from bloomery.base.digest import sha256_file
from bloomery.contracts import lineage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.stale_artefacts import find_stale, stale_artefacts
from bloomery.contracts.stale_models import configured_name, model_names, published_names


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = make_run(tmp_path, configuration(), shards=2)
    write_tables(paths)
    write_tokenizer(paths)
    (paths.tokenizer / "tokenizer.json").write_text('{"model": 1}')
    return paths


def export(paths: RunPaths, name: str) -> Path:
    """Write the parity.json of a model that was made from the tokenizer as it is now. Return its path."""
    counts = dict.fromkeys(("iteration", "consumed_tokens", "parameters", "vocabulary_rows", "samples", "tokens"), 1)
    figures = dict.fromkeys(("tolerance", "max_difference", "max_absolute_difference", "max_logit"), 0.0)
    texts = {"model": name, "checkpoint": "step00000001", "dtype": "float32", "prompt": "", "text": ""}
    made_from = {lineage.TOKENIZER_INPUT: lineage.tokenizer_digest(paths.tokenizer)}
    values = {**counts, **figures, **texts, "argmax_agreement": 1.0, "versions": {}, "files": {}}
    path = paths.export / name / "parity.json"
    write_json(path, values | {"made_from": made_from})
    return path


def older(paths: RunPaths) -> dict[str, str]:
    return {name: str(stale) for name, stale in stale_artefacts(paths).items()}


def test_the_configured_model_comes_first(run: RunPaths) -> None:
    own = configured_name(run)
    for name in ("a", own, "z"):
        export(run, name)
    (run.results / "publish/.hidden").mkdir(parents=True)
    write_result(run, "publish/z.json", {})
    assert model_names(run) == [own, "a", "z"]
    assert published_names(run) == [own, "z"]


def test_models_and_publications_of_an_earlier_name_are_marked(run: RunPaths) -> None:
    own = configured_name(run)
    parity = {name: export(run, name) for name in (own, "earlier")}
    (run.results / "publish").mkdir(parents=True)
    for name, path in parity.items():
        section = {lineage.SECTION: lineage.section_digest(run.config / "publish.json")}
        write_result(run, f"publish/{name}.json", {lineage.PARITY: sha256_file(path), **section})
    assert older(run) == {}
    (run.tokenizer / "tokenizer.json").write_text("{}")
    marked = older(run)
    for name in (own, "earlier"):
        assert marked[f"model {name}"] == marked[f"published {name}"] == "older than the tokenizer"
    parity["earlier"].write_text(parity["earlier"].read_text().replace('"model": "earlier"', '"model": "other"'))
    assert older(run)["published earlier"] == "older than the exported model"


def test_published_logs_with_another_report_are_marked(run: RunPaths) -> None:
    (run.results / "report").mkdir(parents=True)
    write_result(run, "report/corpus.json", {})
    write_result(run, "logs.json", {"report corpus": "0" * 32})
    assert older(run) == {}
    write_result(run, "logs.json", {"report corpus": "1" * 32})
    assert older(run) == {"logs": "older than the report on the corpus"}


@pytest.mark.parametrize("damage", ["{", '{"iteration": 61}'])
def test_a_damaged_record_of_the_only_checkpoint_is_reported(run: RunPaths, damage: str) -> None:
    write_checkpoint(run, 60, 10)
    assert not find_stale(run).unreadable
    manifest = run.checkpoints / "step00000060/manifest.json"
    manifest.write_text(damage)
    assert [error.where for error in find_stale(run).unreadable["training"]] == [str(manifest)]
    write_json(manifest.with_name("damaged.json"), {"problem": "known"})
    assert not find_stale(run).unreadable, "a checkpoint that is marked as damaged is not used"


def test_a_damaged_end_of_the_training_and_a_damaged_record_of_the_model_are_reported(run: RunPaths) -> None:
    name = configured_name(run)
    export(run, name)
    record = run.results / f"export/{name}.json"
    for path in (run.finished, record):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"x": [1, ')
    unreadable = find_stale(run).unreadable
    assert [error.where for error in unreadable["training"]] == [str(run.finished)]
    assert [error.where for error in unreadable[f"model {name}"]] == [str(record)]
