"""Test which detector decides the language, and how judge uses the result."""

import json
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import ConfigError, InputError
from bloomery.checks.load_config import validate_config
from bloomery.config.languages import SHIPPED_FALLBACK
from bloomery.config.stages import DetectorStage
from bloomery.orchestration.stage_sections import stage_sections
from data_prep.corpus.langid import detect, identifier, ngrams
from data_prep.corpus.langid.train_ngrams import train

BAMBARA = "I ni sogoma. N bɛ taa sugu la ka jɛgɛ san. An ka so ka jan dugu la, nka n teri bɛ n makɔnɔ. "
FRENCH = "Le facteur de notre vallée circule encore à vélo, même en hiver, et salue les vaches par leur nom. "
KLINGON = "tlhIngan maH! Qapla' batlh je. nuqDaq 'oH puchpa''e'. bortaS bIr jablu'DI' reH QaQqu' nay'. "


def model_file(folder: Path) -> Path:
    """Train a model with Klingon text under the code of Kikuyu, and return its path."""
    path = folder / "ki.safetensors"
    ngrams.save(train([("ki", KLINGON * 60)], ["ki"], ngrams.load(SHIPPED_FALLBACK)), path)
    return path


def test_the_fallback_detects_languages_that_cld2_does_not_know() -> None:
    shipped = identifier(DetectorStage())
    assert detect(BAMBARA * 3).codes == []
    assert shipped.detect(BAMBARA * 3) == (True, ["bm"], [1.0])
    assert shipped.detect(BAMBARA * 3, "en") == (True, ["bm"], [1.0])
    assert shipped.detect(FRENCH, "bm") == detect(FRENCH)
    assert shipped.detect_all([FRENCH, BAMBARA, ""], ["fr", "bm", "fon"])[2] == (False, [], [])
    assert {"bm", "fon", "fr", "zh-Hant"} <= shipped.codes
    assert not {"ki", "tum", "tw", "de"} & shipped.codes


def test_both_languages_of_a_document_are_detected() -> None:
    found = identifier(DetectorStage()).detect(BAMBARA * 40 + FRENCH * 20, "bm")
    assert found.codes == ["bm", "fr"]
    assert found.shares == pytest.approx([0.66, 0.34], abs=0.06)


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, Any]:
    texts = [("bm", BAMBARA * 3), ("bm", FRENCH * 3), ("ki", KLINGON * 3), ("ki", FRENCH * 3), ("fr", BAMBARA * 3)]
    lines = [json.dumps({"text": text, "language": language}) for language, text in texts]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    return {"name": "s", "kind": "jsonl", "paths": [str(tmp_path / "rows.jsonl")], "language_field": "language"}


@pytest.mark.parametrize("trust", [False, True])
def test_a_language_that_no_detector_knows_keeps_its_label(corpus_run: Any, rows: dict[str, Any], trust: bool) -> None:
    run = corpus_run([rows | {"trust_language": trust}], judge={"preset": "none"})
    run.judge()
    wrong = [False, not trust, False, False, not trust]
    assert [row["rule"] == "wrong_language" for row in run.rows("verdicts")] == wrong
    manifest = json.loads(run.path("measures", "s/00000").with_suffix(".json").read_text())
    assert "bm" in manifest["counts"]["detectable"]


def test_a_fallback_model_of_the_run_adds_its_language(corpus_run: Any, rows: dict[str, Any], tmp_path: Path) -> None:
    run = corpus_run(
        [rows], judge={"preset": "none"}, language_id={"fallback_model": str(model_file(tmp_path))}
    )  # fmt: skip
    run.judge()
    assert [row["rule"] for row in run.rows("verdicts")] == [
        "",
        "wrong_language",
        "",
        "wrong_language",
        "wrong_language",
    ]
    assert [row["detected"] for row in run.rows("measures")] == ["bm", "fr", "ki", "fr", "bm"]


def sections(**language_id: Any) -> dict[str, Any]:
    value = {
        "name": "t",
        "sources": [{"name": "s", "kind": "jsonl", "paths": ["a.jsonl"], "language": "fr"}],
        "corpus": {"language_id": language_id},
        "model": {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8},
        "training": {"train_samples": 1, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 0.1}},
    }
    return {name: part.model_dump() for name, part in stage_sections(validate_config(value)).items()}


def test_another_model_changes_only_the_section_of_measure(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    before, shipped = sections(fallback_model=str(path)), sections()
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    after = sections(fallback_model=str(path))
    for first, second in ((before, after), (before, shipped)):
        assert [name for name in first if first[name] != second[name]] == ["measure"]


def test_a_missing_model_is_named_before_anything_runs() -> None:
    for key in ("fallback_model", "fasttext_model"):
        with pytest.raises(ConfigError, match=rf"corpus.language_id.{key}: no file 'gone.bin'"):
            sections(**{key: "gone.bin"})


def test_measures_without_the_detectable_languages_are_refused(corpus_run: Any, rows: dict[str, Any]) -> None:
    run = corpus_run([rows], judge={"preset": "none"})
    run.judge()
    manifest = run.path("measures", "s/00000").with_suffix(".json")
    value = json.loads(manifest.read_text())
    del value["counts"]["detectable"]
    manifest.write_text(json.dumps(value))
    with pytest.raises(
        InputError, match=r"does not list the languages that the detector can .*measures of this version"
    ):
        run.verb(
            "judge", "--config", run.section("judge.json"), "--input", run.path("measures", "s/00000"),
            "--output", run.path("verdicts", "s/00000"),
        )  # fmt: skip
