"""Write the parts of the card about the results: losses, texts of the model, and the proof that the export is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.markdown_text import markdown_table, markdown_text
from bloomery.base.units import format_finite
from bloomery.contracts.metrics_record import perplexity
from export.card.loss_curve import LOSS_CURVE_NAME

if TYPE_CHECKING:
    from bloomery.contracts.metrics_record import ValidationRecord
    from export.card.facts import CardFacts, RunRecords


def losses(records: RunRecords) -> str | None:
    """Return the losses, and the loss curve. Return None if the training recorded none."""
    if not records.has_metrics:
        return None
    parts = []
    if records.steps:
        step = records.steps[-1]
        loss = format_finite(step.loss, ".4f")
        parts.append(f"Training loss of iteration {step.iteration:,}, the last one: {loss} nats per token.")
    if records.validations:
        parts += _validation(records.validations[-1])
    if without := records.languages_without_validation:
        names = ", ".join(markdown_text(name) for name in without)
        verb = "language has" if len(without) == 1 else "languages have"
        parts.append(f"{len(without)} {verb} no validation set, because too little text was held out: {names}.")
    parts.append(f"![Training loss and mean validation loss over the consumed tokens]({LOSS_CURVE_NAME})")
    return "\n\n".join(parts)


def _validation(record: ValidationRecord) -> list[str]:
    rows = [
        [name, format_finite(loss, ".4f"), format_finite(perplexity(loss), ",.1f")]
        for name, loss in sorted(record.validation.items())
    ]
    mean = format_finite(record.validation_mean, ".4f")
    return [
        f"Validation loss after iteration {record.iteration:,} "
        f"(mean over {len(record.validation)} validation sets: {mean}). "
        "Perplexities depend on the tokenizer, so compare only models with the same tokenizer.",
        markdown_table(["set", "loss", "perplexity"], rows),
    ]


def generations(facts: CardFacts) -> str | None:
    """Return a table of greedy texts. Return None if the export made none."""
    rows = [[each.name, each.prompt, each.text] for each in facts.comparison.generations]
    if not rows:
        return None
    return (
        "Greedy continuations of the beginnings of held-out samples. They were not selected:\n\n"
        if rows[0][0] != "train"
        else "Greedy continuation of the beginning of a training sample. It was not selected:\n\n"
    ) + markdown_table(["set", "beginning", "continuation"], rows)


def parity(facts: CardFacts) -> str:
    """Return the result of the comparison of the exported model with the training."""
    comparison = facts.comparison
    rounded = f" with its weights rounded to {facts.rounded_to}" if facts.rounded_to else ""
    text = (
        f"The fp32 logits of this model{rounded} were compared with the logits of the training processes at "
        f"{comparison.tokens:,} positions of {comparison.samples} samples. The largest difference, relative to the "
        f"largest logit, is {comparison.max_difference:.3g} (allowed: {facts.stage.export.tolerance:g}). "
        f"The most likely token is the same at {100 * comparison.argmax_agreement:.2f} % of the positions. "
        "`parity.json` records this check and the digest of every other file in this folder."
    )
    if not comparison.held_out:
        return text
    rows = [
        [name, str(loss.samples), f"{loss.training:.6f}", f"{loss.exported:.6f}"]
        for name, loss in sorted(comparison.held_out.items())
    ]
    table = markdown_table(["set", "samples", "loss in training", "loss of this model"], rows)
    return f"{text}\n\nLoss on held-out reference samples, in nats per token:\n\n{table}"
