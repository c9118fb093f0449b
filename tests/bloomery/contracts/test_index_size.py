"""Test what the plan assumes about the text of the index, and how the number of validation sets follows."""

from __future__ import annotations

import pytest
from tiny_run import configuration

from bloomery.contracts.index_size import PlannedText, index_size, planned_text, planned_validation_sets


def test_without_an_estimate_the_plan_states_its_assumptions() -> None:
    text = planned_text(configuration())
    assert text.tokens == 64 * 128
    assert text.documents == -(-64 * 128 // 683)
    assert len(text.languages) == 1
    assert text.assumed == {
        "plan.corpus_tokens": "the training reads every token once",
        "plan.corpus_documents": "a document has 683 tokens",
        "plan.corpus_languages": "the text is in one language",
    }


def test_stated_numbers_are_not_assumed() -> None:
    plan = {"corpus_tokens": 10**6, "corpus_documents": 2000, "corpus_languages": 30}
    text = planned_text(configuration({"plan": plan}))
    assert (text.tokens, text.documents, len(set(text.languages)), text.assumed) == (10**6, 2000, 30, {})


def test_languages_are_those_of_the_sources() -> None:
    sources = [{"name": code, "kind": "jsonl", "paths": ["x"], "language": code} for code in ("fr", "sw")]
    assert planned_text(configuration({"sources": sources})).languages == ("fr", "sw")
    udhr = planned_text(configuration({"sources": [{"name": "u", "kind": "udhr"}]}))
    assert len(udhr.languages) == 41


@pytest.mark.parametrize(
    ("documents", "share", "sets"),
    [
        (10_000, 0.01, 10),  # each of ten languages holds out about ten documents
        (10, 0.01, 0),  # one document in a language: hardly any is held out
        (70, 0.1, 5),  # 7 documents in a language: 1 - 0.9^7 = 52 %
        (10_000, 0.0, 0),
    ],
)
def test_a_language_has_a_validation_set_if_its_held_out_documents_fill_a_sample(
    documents: int, share: float, sets: int
) -> None:
    config = configuration({"index": {"validation_share": share}})
    languages = tuple("abcdefghij")
    text = PlannedText(tokens=1000 * documents, documents=documents, languages=languages, assumed={})
    assert len(planned_validation_sets(config, text)) == sets


def test_adopted_token_files_are_not_counted() -> None:
    tokens = {"name": "m", "kind": "megatron", "paths": ["x"], "language": "fr"}
    changes = {"sources": [tokens], "plan": {"corpus_tokens": 10**6, "corpus_documents": 1000}}
    config = configuration(changes, existing="gpt2")
    size = index_size(config, planned_text(config), ())
    assert size.tokens == 0
    assert size.documents < 100_000


def test_documents_and_arrays_grow_with_the_text_and_the_samples() -> None:
    few, many = (
        index_size(config, planned_text(config), ())
        for config in (
            configuration({"plan": {"corpus_tokens": tokens, "corpus_documents": tokens // 500}})
            for tokens in (10**9, 10**10)
        )
    )
    assert many.tokens == 10 * few.tokens
    assert many.documents == pytest.approx(10 * few.documents, rel=0.01)
