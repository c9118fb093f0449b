"""Test the n-gram fallback: the shipped model, the model file, and the `bloomery corpus` command that trains a
model."""

import re
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bloomery.base.errors import InputError
from bloomery.config.languages import SHIPPED_FALLBACK
from data_prep.corpus.cli import app
from data_prep.corpus.langid import ngrams
from data_prep.formats.shard import DOCUMENT_SCHEMA, write_table

BAMBARA = "I ni sogoma. N bɛ taa sugu la ka jɛgɛ san. An ka so ka jan dugu la, nka n teri bɛ n makɔnɔ."
FON = "Un na yi àxì mɛ bo na xɔ̀ hwevì. Xɔ́ntɔn ce ɖò te ɖò finɛ́, bo na kpɔ́n mì ɖò xwé ɔ́ mɛ̀."
ENGLISH = "The baker opens his shop at six and sells bread to the children on their way to school, rain or shine. "
KLINGON = "tlhIngan maH! Qapla' batlh je. nuqDaq 'oH puchpa''e'. bortaS bIr jablu'DI' reH QaQqu' nay'. "
EWE = "Woe zɔ loo. Mele asi me yim be maƒle tɔmelã. Xɔnye le afi ma le lalayem le aƒea me."
ALL = ("bm", "fon")


@pytest.fixture(scope="module")
def shipped() -> ngrams.NgramModel:
    return ngrams.load(SHIPPED_FALLBACK)


def test_the_shipped_model_distinguishes_bambara_and_fon_from_other_languages(shipped: ngrams.NgramModel) -> None:
    assert shipped.languages == ALL
    assert {"dyu", "emk", "ewe", "ajg", "en", "fr", "vi"} <= set(shipped.classes)
    assert shipped.shares(BAMBARA, ALL) == {"bm": 1.0}
    assert shipped.shares(FON, ALL) == shipped.shares(unicodedata.normalize("NFD", FON), ALL) == {"fon": 1.0}
    for other in (ENGLISH, KLINGON, EWE, "今天天气很好，我们走。" * 9, "1234 !!", ""):
        assert shipped.shares(other, ALL) == {}


def test_fon_is_detected_without_tone_marks_and_in_capitals(shipped: ngrams.NgramModel) -> None:
    decomposed = unicodedata.normalize("NFD", FON)
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    assert plain != FON
    assert shipped.shares(plain, ALL) == shipped.shares(plain.upper(), ALL) == {"fon": 1.0}


def test_shares_are_fractions_of_the_whole_text(shipped: ngrams.NgramModel) -> None:
    shares = shipped.shares(BAMBARA * 30 + ENGLISH * 28 * 3, ALL)
    assert shares.keys() == {"bm"}
    assert shares["bm"] == pytest.approx(1 / 4, abs=0.05)
    assert shipped.shares(BAMBARA, ["fon"]) == {}
    # One word is too little text to detect a language.
    assert shipped.shares("makɔnɔ", ALL) == {}


@given(st.text(max_size=2000))
def test_shares_of_any_text_add_up_to_at_most_1(text: str) -> None:
    shares = ngrams.load(SHIPPED_FALLBACK).shares(text, ALL)
    assert all(0 < share <= 1 for share in shares.values())
    assert sum(shares.values()) <= 1 + 1e-9


def test_a_loaded_model_equals_the_saved_one(shipped: ngrams.NgramModel, tmp_path: Path) -> None:
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for path in paths:
        ngrams.save(shipped, path)
        assert path.read_bytes() == SHIPPED_FALLBACK.read_bytes()
    again = ngrams.load(paths[0])
    assert (again.languages, again.classes, again.bytes) == (shipped.languages, shipped.classes, shipped.bytes)


def test_the_error_names_a_file_that_is_not_a_model(shipped: ngrams.NgramModel, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    whole = SHIPPED_FALLBACK.read_bytes()
    for content in (b"", b"text", whole[:1000], whole[:-1], whole.replace(b"languages", b"Languages")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"{re.escape(str(path))}: the file is not an n-gram model"):
            ngrams.load(path)
    path.write_bytes(whole.replace(b"language model 1", b"language model 9"))
    with pytest.raises(InputError, match="another version"):
        ngrams.load(path)
    with pytest.raises(InputError, match=r"gone\.safetensors"):
        ngrams.load(tmp_path / "gone.safetensors")


def test_train_langid_trains_a_model_from_shards(tmp_path: Path) -> None:
    shard = tmp_path / "00000.parquet"
    rows = [("tlh", KLINGON * 9)] * 9 + [("en", ENGLISH * 9)] * 9
    table = pa.table(
        {
            "id": [f"{number:032x}" for number in range(len(rows))],
            "source": ["s"] * len(rows),
            "language": [language for language, _ in rows],
            "text": [text for _, text in rows],
            "meta": [""] * len(rows),
        },
        schema=DOCUMENT_SCHEMA,
    )
    write_table(shard, table, kind="documents", inputs={}, parameters="")
    output = tmp_path / "model.safetensors"
    command = ["train-langid", str(shard), "--language", "tlh", "--output", str(output)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "the model detects bm, fon, tlh and distinguishes them from" in result.stderr
    assert ngrams.load(output).languages == ("bm", "fon", "tlh")
    written = output.read_bytes()
    CliRunner().invoke(app, command, catch_exceptions=False)
    assert output.read_bytes() == written
