"""Test what the card states about losses, texts and the proof."""

from __future__ import annotations

from dataclasses import replace

from bloomery.contracts.parity import Generation, HeldOutLoss
from export.card.result_parts import generations, losses, parity


def test_languages_without_a_validation_set_are_named(known):
    index = known.index.model_copy(update={"validation": known.index.validation[:1]})
    assert "1 language has no validation set, because too little text was held out: yy." in losses(
        replace(known.records, index=index)
    )
    assert "no validation set" not in losses(replace(known.records, index=known.index))


def test_texts_are_shown_literally_with_the_set_that_began_them(known):
    found = (Generation(name="en", prompt="the <b>river", text="runs | to\nthe *sea*"),)
    facts = replace(known.facts, comparison=replace(known.facts.comparison, generations=found))
    text = generations(facts)
    assert text.startswith("Greedy continuations of the beginnings of held-out samples.")
    assert r"| en | the &lt;b&gt;river | runs \| to the \*sea\* |" in text
    begun = (found[0].model_copy(update={"name": "train"}),)
    facts = replace(known.facts, comparison=replace(known.facts.comparison, generations=begun))
    assert generations(facts).startswith("Greedy continuation of the beginning of a training sample.")
    assert generations(known.facts) is None


def test_the_proof_states_the_loss_on_held_out_samples(known):
    held_out = {"en": HeldOutLoss(samples=2, training=5.25, exported=5.2500004)}
    facts = replace(known.facts, comparison=replace(known.facts.comparison, held_out=held_out))
    assert "| en | 2 | 5.250000 | 5.250000 |" in parity(facts)
    assert "held-out" not in parity(known.facts)
