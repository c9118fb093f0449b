"""Test what the card states about the corpus and the data recipe."""

from __future__ import annotations

from dataclasses import replace

from export.card.data_parts import corpus, licences


def test_the_corpus_part_states_shares_and_epochs_and_how_often_the_text_is_read(known):
    text = corpus(known.facts, replace(known.records, index=known.index, stale=None))
    # (1,000 x 12 + 1,000 x 8) / 2,000 unique tokens
    assert "400 samples from 2,000 unique tokens, so it reads its text 10 times on average" in text
    assert "teaches a model less than new text" in text
    assert "This checkpoint" not in text
    # `xx` is only in the index, as the languages of adopted token files are.
    assert "| xx |  |  |  |  | 1,000 | 0.6000 | 12 |" in text
    assert "| en | 5 | 1.5 KiB | 0.5000 | 0.5000 |  |  |  |" in text


def test_an_earlier_checkpoint_states_how_much_it_has_read(known):
    manifest = known.facts.manifest.model_copy(update={"consumed_samples": 100})
    text = corpus(replace(known.facts, manifest=manifest), replace(known.records, index=known.index))
    assert "This checkpoint has read 25.0 % of these samples." in text


def test_the_recipe_has_the_recorded_keys_but_no_folders_of_a_machine(known):
    recipe = {
        "dedup": {"dedup": {"exact": True, "near": {"ngram": 5}, "against": ["/home/somebody/old"]}, "priorities": {}},
        "mixture": {"mixture": {"method": "alpha", "alpha": 0.7}},
        "tokenizer": {"tokenizer": {"vocabulary_size": 2048, "existing": "/home/somebody/tokenizer"}},
        "judge": {"thresholds": {"default": {"min_words": 5}, "fr": {"min_words": 7}}},
    }
    text = corpus(known.facts, replace(known.records, recipe=recipe))
    for row in (
        "| dedup | dedup.near.ngram | 5 |",
        "| mixture | mixture.alpha | 0.7 |",
        "| tokenizer | tokenizer.vocabulary_size | 2048 |",
        "| judge | thresholds.default.min\\_words | 5 |".replace("\\", ""),
    ):
        assert row in text, row
    assert "/home" not in text


def test_without_records_of_the_corpus_the_part_is_left_out(known):
    assert corpus(known.facts, replace(known.records, languages=None, index=None, recipe={})) is None
    assert licences({}) is None
