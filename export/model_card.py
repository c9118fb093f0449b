"""Render the model card, README.md, and draw its loss curve.

Every number comes from the run's files. The card leaves out facts that the run did not record.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import yaml

from bloomery.base.markdown_text import markdown_code, markdown_text
from bloomery.base.units import format_count
from bloomery.contracts.resume_policy import saved_stage
from export.card.data_parts import corpus, licences
from export.card.facts import CardFacts, RunRecords, read_run_records
from export.card.loss_curve import LOSS_CURVE_NAME, loss_curve
from export.card.metadata import front_matter
from export.card.result_parts import generations, losses, parity
from export.card.training_parts import hardware, lineage, network, training

if TYPE_CHECKING:
    from bloomery.contracts.paths import RunPaths

CARD_NAME = "README.md"


def render_card(facts: CardFacts, records: RunRecords) -> str:
    """Return the text of README.md. It does not depend on the time of the export, so equal runs give equal cards."""
    header = yaml.safe_dump(front_matter(facts, records), sort_keys=False, allow_unicode=True)
    sections = [
        ("", _summary(facts)),
        ("## How to load it", _how_to_load(facts)),
        ("## Evaluation", losses(records)),
        ("## Texts of the model", generations(facts)),
        ("## Network", network(facts)),
        ("## Training", training(facts)),
        ("## Hardware, time and energy", hardware(records)),
        ("## Corpus", corpus(facts, records)),
        ("## Licences of the sources", licences(facts.stage.licences)),
        ("## Parity with the training", parity(facts)),
        ("## Lineage", lineage(facts, records)),
    ]
    body = "\n\n".join(f"{title}\n\n{text}".strip() for title, text in sections if text is not None)
    return f"---\n{header}---\n\n# {markdown_text(facts.stage.model_name)}\n\n{body}\n"


def _summary(facts: CardFacts) -> str:
    initial = saved_stage(facts.manifest).initial
    started = f"The training started with the weights of {markdown_code(_origin(initial.source))}. " if initial else ""
    return (
        f"This is a language model with {facts.family.title}'s architecture and {facts.parameters:,} parameters "
        f"({format_count(facts.parameters)}). The run {markdown_code(facts.stage.name)} of Bloomery trained the model "
        f"on {facts.manifest.consumed_tokens:,} tokens. {started}The model was exported from the checkpoint "
        f"{markdown_code(facts.checkpoint)}. "
        "It is a base model: it continues text and has not been tuned to follow instructions or to be safe."
    )


def _origin(source: str) -> str:
    """Return the origin of the initial weights. Of an absolute path, only the last part is returned."""
    return PurePath(source).name if PurePath(source).is_absolute() else source


def _how_to_load(facts: CardFacts) -> str:
    return (
        "```python\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        'path = "."  # this folder, or the name of this repository\n'
        "tokenizer = AutoTokenizer.from_pretrained(path)\n"
        f'model = AutoModelForCausalLM.from_pretrained(path, dtype="{facts.dtype}")\n'
        'inputs = tokenizer("The river", return_tensors="pt", return_token_type_ids=False)\n'
        "print(tokenizer.decode(model.generate(**inputs, max_new_tokens=20)[0]))\n"
        "```\n\n"
        f'On the Hub, `revision="{facts.checkpoint}"` loads exactly this checkpoint, '
        "even after a newer one is published."
    )


def write_card(folder: Path, facts: CardFacts, paths: RunPaths) -> None:
    """Write README.md, and the loss curve if the training recorded losses.

    Raises:
        InputError: a file of the run that the card reads is damaged.
    """
    records = read_run_records(paths, facts.manifest.iteration)
    if records.has_metrics:
        (folder / LOSS_CURVE_NAME).write_bytes(loss_curve(records.steps, records.validations))
    (folder / CARD_NAME).write_text(render_card(facts, records), encoding="utf-8")
