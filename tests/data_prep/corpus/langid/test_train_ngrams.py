"""Test the training of an n-gram model."""

from pathlib import Path

import numpy as np
import pytest

from bloomery.base.errors import InputError
from bloomery.config.languages import SHIPPED_FALLBACK
from data_prep.corpus.langid import ngrams
from data_prep.corpus.langid.train_ngrams import train

BAMBARA = "I ni sogoma. N bɛ taa sugu la ka jɛgɛ san. An ka so ka jan dugu la, nka n teri bɛ n makɔnɔ."
FON = "Un na yi àxì mɛ bo na xɔ̀ hwevì. Xɔ́ntɔn ce ɖò te ɖò finɛ́, bo na kpɔ́n mì ɖò xwé ɔ́ mɛ̀."
ENGLISH = "The baker opens his shop at six and sells bread to the children on their way to school, rain or shine. "
KLINGON = "tlhIngan maH! Qapla' batlh je. nuqDaq 'oH puchpa''e'. bortaS bIr jablu'DI' reH QaQqu' nay'. "


@pytest.fixture(scope="module")
def shipped() -> ngrams.NgramModel:
    return ngrams.load(SHIPPED_FALLBACK)


def test_training_adds_a_language_to_those_of_the_base_model(shipped: ngrams.NgramModel, tmp_path: Path) -> None:
    model = train([("tlh", KLINGON * 60), ("en", ENGLISH * 60)], ["tlh"], shipped)
    assert model.languages == ("bm", "fon", "tlh")
    assert set(model.classes) == {*shipped.classes, "tlh"}
    every = model.languages
    assert model.shares("Qapla' batlh je, tlhIngan maH reH", every) == {"tlh": 1.0}
    assert model.shares(BAMBARA, every) == {"bm": 1.0}
    for language in ("bm", "dyu"):
        column, before = model.classes.index(language), shipped.classes.index(language)
        assert np.array_equal(model.weights[:, column], shipped.weights[:, before])
    # English was in the texts, so it is trained again.
    assert model.bytes[model.classes.index("en")] == len(ENGLISH) * 60


def test_too_little_text_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"92 bytes of text in the language 'tlh' are not enough; expected: 4096 bytes or more"
    ):
        train([("tlh", KLINGON), ("en", ENGLISH * 60)], ["tlh"])
    with pytest.raises(InputError, match="0 bytes of text in the language 'xx' are not enough"):
        train([("en", ENGLISH * 60)], ["xx"])
    with pytest.raises(InputError, match="there is text in one language only"):
        train([("tlh", KLINGON * 60), ("en", ENGLISH)], ["tlh"])


def test_max_bytes_limits_the_text_of_each_language() -> None:
    texts = [("tlh", KLINGON * 60), ("en", ENGLISH * 60)]
    more = [*texts, ("en", BAMBARA * 60), ("tlh", FON * 60)]
    first, second = train(texts, ["tlh"], max_bytes=5000), train(more, ["tlh"], max_bytes=5000)
    assert np.array_equal(first.weights, second.weights)
    assert not np.array_equal(first.weights, train(more, ["tlh"]).weights)
