"""Compare the Gopher and FineWeb measures and verdicts with datatrove's own filters, which only tests use.

datatrove splits words with spaCy, counts punctuation as words and distinguishes case. Here it gets this project's words
in lower case, so that the tests compare the rules and not the splitters. The texts avoid the remaining differences:
datatrove does not strip lines, its quality filter counts blank lines, and its paragraphs end only at an empty line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datatrove.data import Document
from datatrove.pipeline.filters import fineweb_quality_filter, gopher_quality_filter, gopher_repetition_filter
from kernel_words import normal, words_of
from repository import SAMPLE

from bloomery.config.corpus import JudgeConfig, LanguageIdConfig, Thresholds
from bloomery.config.languages import resolved_thresholds
from bloomery.config.stages import JudgeStage
from data_prep.corpus import _text
from data_prep.corpus.judge import RULES, failures

GOPHER_REPETITION = {
    "dup_para_frac": "max_duplicate_paragraph_fraction",
    "dup_para_char_frac": "max_duplicate_paragraph_ratio",
    "dup_line_frac": "max_duplicate_line_fraction",
    **{f"top_{n}_gram": f"max_top_{n}gram_ratio" for n in (2, 3, 4)},
    **{f"duplicated_{n}_n_grams": f"max_duplicate_{n}gram_ratio" for n in range(5, 11)},
}
GOPHER_QUALITY = {
    "gopher_short_doc": "min_words",
    "gopher_long_doc": "max_words",
    "gopher_below_avg_threshold": "min_mean_word_length",
    "gopher_above_avg_threshold": "max_mean_word_length",
    "gopher_too_many_hashes": "max_hash_ratio",
    "gopher_too_many_ellipsis": "max_ellipsis_ratio",
    "gopher_too_many_bullets": "max_bullet_ratio",
    "gopher_too_many_end_ellipsis": "max_ellipsis_line_ratio",
    "gopher_below_alpha_threshold": "min_alphabetic_word_ratio",
}
FINEWEB = {
    "line_punct_ratio": "min_terminal_punctuation_ratio",
    "short_line_ratio": "max_short_line_ratio",
    "char_dup_ratio": "max_duplicate_line_ratio",
    "list_ratio": "max_newline_ratio",
}
FINEWEB_LIMITS = {
    "min_terminal_punctuation_ratio": 0.12,
    "max_short_line_ratio": 0.67,
    "max_duplicate_line_ratio": 0.01,
    "max_newline_ratio": 0.3,
}


def spaced_words(text: str, _: str = "en") -> list[str]:
    return [normal(word) for word in words_of(text, False)]


@pytest.fixture(scope="module", autouse=True)
def one_splitter() -> Any:
    patch = pytest.MonkeyPatch()
    for module in (fineweb_quality_filter, gopher_quality_filter, gopher_repetition_filter):
        patch.setattr(module, "split_into_words", spaced_words)
    yield
    patch.undo()


def tidy(text: str) -> str:
    """Strip every line, and leave one empty line between paragraphs."""
    blocks = [[line.strip() for line in block.split("\n") if line.strip()] for block in text.split("\n\n")]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def fixture_texts() -> list[str]:
    """Return the prose and the defects of the sample, and texts that each break a rule."""
    texts = [
        json.loads(line)["text"]
        for name in ("en", "fr", "es", "sw", "rw", "defects")
        for line in (SAMPLE / f"{name}.jsonl").read_text().splitlines()
        if line.startswith("{") and '"text"' in line
    ]
    prose = texts[0]
    made = [
        "the mill by the river " * 40,
        "\n".join([prose] * 3),
        "\n\n".join([prose, prose, texts[1]]),
        "\n".join(f"- item number {n} of the longer list" for n in range(40)),
        "\n".join(f"and so it went on, day {n} ..." for n in range(40)),
        "# " * 30 + prose,
        "... " * 30 + prose,
        "12 345 67 89 " * 30,
        "a b c d e f g h i j " * 12,
        "incomprehensibilities antidisestablishmentarianism " * 30,
        "short line\n" * 12 + prose,
        "Once more.\n" + prose + "\nOnce more.\n" + prose[:100],
    ]
    found = [tidy(text) for text in texts + made if isinstance(text, str)]
    # str.splitlines also ends lines at characters such as U+0085, which this project does not do.
    return [text for text in found if text and len(text.splitlines()) == len(text.split("\n"))]


TEXTS = fixture_texts()


def ours(limits: dict[str, float]) -> list[set[str]]:
    blobs = [text.encode() for text in TEXTS]
    offsets = np.cumsum([0, *map(len, blobs)], dtype=np.int64)
    measured: dict[str, Any] = _text.measure(b"".join(blobs), offsets, np.zeros(len(TEXTS), np.uint8))
    del measured["scripts"]  # the shares of scripts, which no limit uses
    none: list[list[str]] = [[] for _ in TEXTS]
    measured |= {"language": ["en"] * len(TEXTS), "source": ["s"] * len(TEXTS)}
    measured |= {"detected_codes": pa.array(none, pa.list_(pa.string()))}
    measured |= {"detected_shares": pa.array(none, pa.list_(pa.float64()))}
    stage = JudgeStage(
        thresholds={"default": Thresholds.model_validate(limits)},
        accept={},
        trusted_sources=[],
        language_id=LanguageIdConfig(),
    )
    broken, _ = failures(pa.table(measured), stage)
    return [{RULES[row] for row in np.flatnonzero(broken[:, column])} for column in range(len(TEXTS))]


def compare(names: dict[str, str], limits: dict[str, float], make: Callable[[], Any], least: int) -> None:
    """Check that our failing rules include datatrove's first reason, and that none fails if datatrove has no reason."""
    peer = make()
    hit = set()
    for text, failing in zip(TEXTS, ours(limits), strict=True):
        verdict = peer.filter(Document(text=text, id="x"))
        reason = None if verdict is True else verdict[1]
        if reason is None:
            assert not failing, (failing, text[:200])
        else:
            assert names[reason] in failing, (reason, failing, text[:200])
            hit.add(reason)
    assert len(hit) >= least, hit


def gopher(names: dict[str, str]) -> dict[str, float]:
    limits = resolved_thresholds(JudgeConfig(preset="gopher"))["default"].model_dump(exclude_none=True)
    return {rule: limits[rule] for rule in names.values()}


def test_the_gopher_repetition_rules_agree_with_datatrove() -> None:
    # `dup_line_char_frac` is not compared: datatrove's ratio counts newlines, and this project's ratio does not.
    repetition = gopher_repetition_filter.GopherRepetitionFilter
    compare(GOPHER_REPETITION, gopher(GOPHER_REPETITION), lambda: repetition(dup_line_char_frac=None), 5)


def test_the_gopher_quality_rules_agree_with_datatrove() -> None:
    quality = gopher_quality_filter.GopherQualityFilter
    compare(GOPHER_QUALITY, gopher(GOPHER_QUALITY), lambda: quality(min_stop_words=None), 5)


def test_the_fineweb_rules_agree_with_datatrove() -> None:
    # datatrove has one list of characters that end sentences. This project's list also has such characters of other
    # scripts, and it allows closing quotes after them.
    compare(FINEWEB, FINEWEB_LIMITS, fineweb_quality_filter.FineWebQualityFilter, 3)


@pytest.mark.parametrize("text", TEXTS[:40], ids=range(40))
def test_ngram_ratios_agree_with_datatrove(text: str) -> None:
    blob = text.encode()
    measured = _text.measure(blob, np.array([0, len(blob)], np.int64), np.zeros(1, np.uint8))
    words = spaced_words(text)
    # The kernel counts the apostrophes inside words as characters of the n-grams, but `spaced_words` removes them.
    apostrophes = "'" in text or "’" in text
    for n in (2, 3, 4):
        grams = gopher_repetition_filter.get_n_grams(words, n)
        expected = gopher_repetition_filter.find_top_duplicate(grams) / len(text) if grams else 0.0
        assert measured[f"top_{n}gram_ratio"][0] == pytest.approx(expected, abs=0.02 if apostrophes else 1e-12)
    for n in range(5, 11):
        expected = gopher_repetition_filter.find_all_duplicate(words, n) / len(text)
        assert measured[f"duplicate_{n}gram_ratio"][0] == pytest.approx(expected, abs=1e-12)
