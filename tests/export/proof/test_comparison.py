"""Test the decision whether the exported model's logits match those of the training."""

from __future__ import annotations

import pytest
import torch
from fabricated_export import reference_of

from bloomery.base.errors import CheckFailedError
from bloomery.checkpoint.weights import Checkpoint
from bloomery.spec.export_resources import new_tokens
from export.export_model import export_model
from export.proof.comparison import Comparison, check, compare, prompts_of
from export.proof.forward_model import continue_greedily
from export.proof.split_model import SplitModel


def comparison(difference=1e-6, logit=4.0):
    return Comparison(3, 72, difference, logit, 1.0, {})


@pytest.mark.parametrize(("difference", "logit"), [(1e-4, 1.0), (3e-4, 4.0), (5e-5, 0.1)])
def test_the_difference_is_relative_to_the_greatest_logit_or_one(difference, logit):
    check(comparison(difference, logit), 1e-4, where="here")


@pytest.mark.parametrize(("difference", "logit"), [(2e-4, 1.0), (2e-4, 0.01), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_a_difference_above_the_tolerance_or_not_finite_fails(difference, logit):
    with pytest.raises(CheckFailedError, match=r"export\.tolerance"):
        check(comparison(difference, logit), 1e-4, where="here")


def test_large_models_get_shorter_texts():
    assert [new_tokens(count) for count in (1_000, 10**9, 176 * 10**9)] == [32, 20, 4]


@pytest.mark.slow
def test_every_position_of_every_sample_is_compared_and_the_losses_are_those_of_transformers(fabricate):
    run = fabricate(tensor=4)
    entries = run.manifest.vocabulary_size
    reference, pieces = reference_of(run.whole, entries), SplitModel(Checkpoint(run.checkpoint))
    found = compare(pieces, reference, run.manifest.vocabulary_rows, entries, "here")
    assert (found.samples, found.tokens) == (3 + 3, 3 * 24 + 3 * 32)
    assert found.max_difference < 1e-5
    assert {name: each.samples for name, each in found.held_out.items()} == {"en": 2, "fr": 1}
    tokens = next(each.tokens for each in reference.long if each.name == "fr")
    with torch.inference_mode():
        logits = run.whole(input_ids=tokens[None]).logits[0, :-1, :entries]
    loss = float(torch.nn.functional.cross_entropy(logits.double(), tokens[1:]))
    assert found.held_out["fr"].training == pytest.approx(loss, abs=1e-6)
    assert found.held_out["fr"].exported == pytest.approx(loss, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["entry_logits", "log_sum", "greatest", "next_logits"])
def test_a_difference_at_one_position_of_a_longer_sample_is_found(fabricate, part):
    run = fabricate()
    entries = run.manifest.vocabulary_size
    reference = reference_of(run.whole, entries)
    getattr(reference.long[2].summary, part)[-1] += 0.5
    found = compare(SplitModel(Checkpoint(run.checkpoint)), reference, run.manifest.vocabulary_rows, entries, "here")
    assert found.max_absolute_difference == pytest.approx(0.5, abs=1e-3)


@pytest.mark.slow
def test_a_reference_that_is_not_finite_is_refused(fabricate):
    run = fabricate()
    entries = run.manifest.vocabulary_size
    reference = reference_of(run.whole, entries)
    reference.long[1].summary.log_sum[3] = torch.nan
    with pytest.raises(CheckFailedError, match="sample 4 are not finite"):
        compare(SplitModel(Checkpoint(run.checkpoint)), reference, run.manifest.vocabulary_rows, entries, "here")


@pytest.mark.slow
def test_the_texts_are_those_that_transformers_generates_greedily(fabricate):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = fabricate()
    parity = export_model(run.stage, run.paths, run.target)
    model = AutoModelForCausalLM.from_pretrained(run.target, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(run.target)
    names, prompts = prompts_of(reference_of(run.whole, run.manifest.vocabulary_size))
    assert [each.name for each in parity.generations] == names == ["en", "fr"]
    for generation, prompt in zip(parity.generations, prompts, strict=True):
        count = run.stage.model.sequence_length - len(prompt)
        text = model.generate(
            prompt[None],
            attention_mask=torch.ones_like(prompt[None]),
            max_new_tokens=count,
            do_sample=False,
            eos_token_id=None,
            suppress_tokens=list(range(run.manifest.vocabulary_size, run.manifest.vocabulary_rows)),
        )[0]
        assert generation.prompt + generation.text == tokenizer.decode(text, skip_special_tokens=True)


@pytest.mark.slow
def test_a_text_with_another_token_is_refused(fabricate, monkeypatch):
    run = fabricate()

    def wrong(model, prompts, new_tokens, vocabulary):
        texts = continue_greedily(model, prompts, new_tokens, vocabulary)
        texts[1][-1] = (texts[1][-1] + 1) % vocabulary
        return texts

    monkeypatch.setattr("export.proof.comparison.continue_greedily", wrong)
    with pytest.raises(CheckFailedError, match=r"greedy continuation .* of a sample of 'fr' differs"):
        export_model(run.stage, run.paths, run.target)
    assert not run.target.exists()
