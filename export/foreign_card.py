"""Render the model card of a model that was made from a checkpoint of another project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.markdown_text import markdown_code, markdown_text
from bloomery.base.units import format_count
from bloomery.contracts.foreign_source import SOURCE_NAME

if TYPE_CHECKING:
    from bloomery.contracts.foreign_source import ForeignSource
    from bloomery.contracts.parity import Parity
    from bloomery.spec.transformers_families.family import Family

_NAMED = 20
"""Number of drifted parameters that the card lists. `source.json` lists all."""


@dataclass(frozen=True)
class ForeignFacts:
    """Facts that the card states."""

    parity: Parity
    source: ForeignSource
    family: Family
    has_tokenizer: bool


def write_foreign_card(folder: Path, facts: ForeignFacts) -> None:
    """Write README.md."""
    (folder / "README.md").write_text(render_foreign_card(facts), encoding="utf-8")


def render_foreign_card(facts: ForeignFacts) -> str:
    """Return the text of README.md. It has no clock times, so equal checkpoints give equal cards."""
    header = (
        "library_name: transformers\npipeline_tag: text-generation\n"
        f"tags:\n- {facts.family.model_type}\n- bloomery\n- text-generation\n"
    )
    parts = [
        f"# {markdown_text(facts.parity.model)}",
        _summary(facts),
        "## How to load it",
        _how_to_load(facts.has_tokenizer),
        "## Origin",
        _origin(facts),
        *(["## Replicas that differed", _drift(facts.source)] if facts.source.drift else []),
        "## Parity with the checkpoint",
        _parity(facts.parity),
    ]
    return f"---\n{header}---\n\n" + "\n\n".join(parts) + "\n"


def _summary(facts: ForeignFacts) -> str:
    count = facts.parity.parameters
    return (
        f"This is a language model of the class {markdown_code(facts.family.architecture)} with {count:,} parameters "
        f"({format_count(count)}). Bloomery converted it from the checkpoint {markdown_code(facts.parity.checkpoint)} "
        f"({facts.source.layout}). Bloomery did not train this model and knows neither its training data nor its "
        "licence."
    )


def _how_to_load(has_tokenizer: bool) -> str:
    names = ("AutoModelForCausalLM, AutoTokenizer", "tokenizer = AutoTokenizer.from_pretrained(path)\n")
    imported, line = names if has_tokenizer else ("AutoModelForCausalLM", "")
    return (
        f'```python\nfrom transformers import {imported}\n\npath = "."  # this folder, or the name of this repository\n'
        f"{line}model = AutoModelForCausalLM.from_pretrained(path)\n```"
    )


def _origin(facts: ForeignFacts) -> str:
    parity, source = facts.parity, facts.source
    lines = [
        f"iteration {parity.iteration:,}" if parity.iteration else "iteration: not recorded",
        f"{parity.consumed_tokens:,} tokens" if parity.consumed_tokens else "tokens: not recorded",
        f"weights: {source.dtype} in the checkpoint, {parity.dtype} here",
        f"tensor-parallel size: {source.tensor_parallel}",
        f"embedding rows: {parity.vocabulary_rows:,}",
        f"files: {len(source.files)}, whose SHA-256 are in `{SOURCE_NAME}`",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _drift(source: ForeignSource) -> str:
    action = {
        "rank0": "They were replaced by the replica of tensor rank 0.",
        "mean-fp32": "They were replaced by their mean, which was computed in more than 16 bits.",
    }
    lines = [
        f"- {markdown_code(name)}: " + ("not finite" if difference is None else f"{difference:.3g}")
        for name, difference in list(source.drift.items())[:_NAMED]
    ]
    if len(source.drift) > _NAMED:
        lines.append(f"- {len(source.drift) - _NAMED} more, which `{SOURCE_NAME}` lists")
    assert source.on_drift is not None, "drift without this choice is an error"
    return (
        f"The tensor ranks held different replicas of {len(source.drift)} parameters, which must be equal. "
        f"{action[source.on_drift]} The greatest difference of two replicas:\n\n" + "\n".join(lines)
    )


def _parity(parity: Parity) -> str:
    return (
        "The fp32 logits of this model were compared with logits that were computed from the weights of each tensor "
        "rank of the checkpoint. This computation used neither transformers nor merged weights. The comparison covers "
        f"{parity.tokens:,} positions of {parity.samples} samples of random tokens. The largest difference, relative "
        "to the largest logit, is "
        f"{parity.max_difference:.3g} (allowed: {parity.tolerance:g}). The most likely token is the same at "
        f"{100 * parity.argmax_agreement:.2f} % of the positions. `parity.json` records this check and the digest of "
        "every other file in this folder."
    )
