"""Render the model card, README.md. Every number comes from the run's files. Missing facts are marked as such."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.base.units import format_bytes, format_count, format_energy, format_finite
from bloomery.contracts.metrics_record import perplexity, total_energy, valid_records
from bloomery.spec.flops import iteration_flops
from bloomery.spec.weight_files import export_dtype

if TYPE_CHECKING:
    from bloomery.config.stages import ExportStage
    from bloomery.contracts.checkpoint import CheckpointManifest
    from bloomery.contracts.paths import RunPaths
    from export.verify_logits import Comparison

NOT_RECORDED = "Not recorded."
CODE = "code"
_LANGUAGE_FACTS = ("documents", "bytes", "share", "weight")
_HUB_CODES = {"zhs": "zh", "zht": "zh"}
_HUB_LICENCES = frozenset(
    """
    afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bigscience-bloom-rail-1.0 bigscience-openrail-m bsd bsd-2-clause
    bsd-3-clause bsd-3-clause-clear bsl-1.0 cc cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0
    cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0
    cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 ecl-2.0 epl-1.0 epl-2.0 eupl-1.1 eupl-1.2 gfdl gpl gpl-2.0 gpl-3.0 isc lgpl
    lgpl-2.1 lgpl-3.0 lppl-1.3c mit mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 openrail osl-3.0 other pddl postgresql
    unknown unlicense wtfpl zlib
    """.split()  # noqa: SIM905 (a table of words)
)
"""Licence identifiers that the Hub's metadata accepts (from the Hub's documentation of model cards)."""


@dataclass(frozen=True)
class CardFacts:
    """Facts that the card needs in addition to the run's files."""

    stage: ExportStage
    manifest: CheckpointManifest
    checkpoint: str
    parameters: int
    vocabulary_rows: int
    comparison: Comparison


def corpus_languages(paths: RunPaths) -> dict[str, dict[str, Any]] | None:
    """Return the facts of each language with a weight above 0, from corpus/mixture.json.

    Return None if the file is missing.

    Raises:
        InputError: the file has no table of languages, or a language lacks a fact.
    """
    path = paths.corpus / "mixture.json"
    if not path.is_file():
        return None
    languages = read_json(path).get("languages")
    if not isinstance(languages, dict):
        raise InputError(
            "the file has no table of languages",
            where=str(path),
            expected='{"languages": {code: {...}}, ...}; restore this file',
        )
    for code, facts in languages.items():
        missing = [key for key in _LANGUAGE_FACTS if not isinstance(facts.get(key), int | float)]
        if missing:
            raise InputError(
                f"the entry of language {code!r} lacks the number{'s' * (len(missing) > 1)} {_quoted(missing)}",
                where=str(path),
                expected=f"the numbers {_quoted(_LANGUAGE_FACTS)} for every language; restore this file",
            )
    return {code: facts for code, facts in sorted(languages.items()) if facts["weight"] > 0}


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"{key!r}" for key in keys)


def hub_licence(licences: dict[str, str]) -> str:
    """Return the Hub's identifier of the licence that all sources have.

    Return `other` if the sources have different licences, or if the Hub has no identifier for the licence.
    """
    different = {licence.strip().lower() for licence in licences.values()}
    licence = different.pop() if len(different) == 1 else "other"
    return licence if licence in _HUB_LICENCES else "other"


def front_matter(facts: CardFacts, languages: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    """Return the card's metadata, which the Hub indexes."""
    codes = sorted({_HUB_CODES.get(code, code) for code in languages or {} if code != CODE})
    tags = ["bloom", "bloomery", "text-generation"] + ([CODE] if CODE in (languages or {}) else [])
    return {
        **({"language": codes} if codes else {}),
        "license": hub_licence(facts.stage.licences),
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": tags,
    }


def render_card(facts: CardFacts, paths: RunPaths) -> str:
    """Return the text of the exported model's README.md. It has no clock times, so equal runs give equal cards."""
    import yaml

    languages = corpus_languages(paths)
    header = yaml.safe_dump(front_matter(facts, languages), sort_keys=False, allow_unicode=True)
    sections = [
        ("", _summary(facts)),
        ("## How to load it", _how_to_load()),
        ("## Network", _network(facts)),
        ("## Training", _training(facts)),
        ("## Losses", _losses(facts, paths)),
        ("## Corpus", _corpus(languages)),
        ("## Licences of the sources", _licences(facts.stage.licences)),
        ("## Parity with the training", _parity(facts)),
    ]
    body = "\n\n".join(f"{title}\n\n{text}".strip() for title, text in sections)
    return f"---\n{header}---\n\n# {facts.stage.model_name}\n\n{body}\n"


def _table(columns: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _summary(facts: CardFacts) -> str:
    return (
        f"This is a language model with BLOOM's architecture and {facts.parameters:,} parameters "
        f"({format_count(facts.parameters)}). The run `{facts.stage.name}` of Bloomery trained the model on "
        f"{facts.manifest.consumed_tokens:,} tokens. The model was exported from the checkpoint `{facts.checkpoint}`. "
        "It is a base model: it continues text and has not been tuned to follow instructions or to be safe."
    )


def _how_to_load() -> str:
    return (
        "```python\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        'path = "."  # this folder, or the name of this repository\n'
        "tokenizer = AutoTokenizer.from_pretrained(path)\n"
        "model = AutoModelForCausalLM.from_pretrained(path)\n"
        "```"
    )


def _network(facts: CardFacts) -> str:
    model = facts.stage.model
    rows = [
        ["blocks", str(model.layers)],
        ["hidden size", str(model.hidden_size)],
        ["heads", str(model.heads)],
        ["feed-forward size", str(model.ffn_size)],
        ["sequence length", f"{model.sequence_length} tokens"],
        ["vocabulary", f"{facts.manifest.vocabulary_size:,} entries, {facts.vocabulary_rows:,} embedding rows"],
        ["positions", "ALiBi"],
        ["weights", export_dtype(facts.stage.export, facts.stage.training.precision)],
    ]
    return _table(["", ""], rows)


def _training(facts: CardFacts) -> str:
    training, manifest = facts.stage.training, facts.manifest
    optimizer = training.optimizer
    flops = iteration_flops(facts.stage.model, facts.vocabulary_rows, manifest.consumed_samples, recomputed=False)
    rows = [
        ["iterations", f"{manifest.iteration:,}"],
        ["samples", f"{manifest.consumed_samples:,}"],
        ["tokens", f"{manifest.consumed_tokens:,}"],
        ["compute", f"{flops:.3g} FLOPs of the model, without recomputation"],
        ["global batch", f"{training.batch.global_batch_size} samples"],
        ["learning rate", f"{optimizer.learning_rate:g}, {optimizer.schedule} to {optimizer.min_learning_rate:g}"],
        ["weight decay", f"{optimizer.weight_decay:g}"],
        ["precision", training.precision],
        [
            "layout",
            f"tensor {manifest.tensor_parallel} x pipeline {manifest.pipeline_parallel} "
            f"x data {manifest.data_parallel}",
        ],
        ["software", ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items()))],
    ]
    return _table(["", ""], rows)


def _losses(facts: CardFacts, paths: RunPaths) -> str:
    path = paths.logs / "metrics.jsonl"
    if not path.is_file():
        return NOT_RECORDED
    last = facts.manifest.iteration
    steps, checks = valid_records(path)
    trained = [record for record in steps if record.iteration <= last]
    validated = [record for record in checks if record.iteration <= last]
    parts = []
    if trained:
        loss = format_finite(trained[-1].loss, ".4f")
        parts.append(f"Training loss at iteration {trained[-1].iteration:,}: {loss}.")
    if validated:
        record = validated[-1]
        parts.append(
            f"Validation loss after iteration {record.iteration:,} "
            f"(mean over the validation sets: {format_finite(record.validation_mean, '.4f')}):"
        )
        parts.append(
            _table(
                ["set", "loss", "perplexity"],
                [
                    [name, format_finite(loss, ".4f"), format_finite(perplexity(loss), ",.1f")]
                    for name, loss in sorted(record.validation.items())
                ],
            )
        )
    if energy := total_energy(path):
        nodes = f"{energy.nodes} nodes" if energy.nodes != 1 else "one node"
        parts.append(
            f"Energy of the training's processors and memory ({nodes}, recorded by codecarbon): "
            f"{format_energy(energy.energy_kwh, energy.co2_kg, energy.estimated_kwh)}. "
            "The CO2 is estimated from the energy mix of the country."
        )
    return "\n\n".join(parts) or NOT_RECORDED


def _corpus(languages: dict[str, dict[str, Any]] | None) -> str:
    if not languages:
        return NOT_RECORDED
    rows = [
        [
            code,
            f"{facts['documents']:,}",
            format_bytes(facts["bytes"]),
            f"{facts['share']:.4f}",
            f"{facts['weight']:.4f}",
        ]
        for code, facts in languages.items()
    ]
    table = _table(["language", "documents", "text", "share of bytes", "weight in training"], rows)
    note = "\n\nThe language `code` is source code." if CODE in languages else ""
    return f"Documents and text of each language after cleaning and deduplication:\n\n{table}{note}"


def _licences(licences: dict[str, str]) -> str:
    if not licences:
        return NOT_RECORDED
    return _table(["source", "licence"], [[name, licence] for name, licence in sorted(licences.items())])


def _parity(facts: CardFacts) -> str:
    comparison = facts.comparison
    return (
        f"The fp32 logits of this model were compared with the logits of the training processes at "
        f"{comparison.tokens:,} positions of {comparison.samples} samples. The largest difference, relative to the "
        f"largest logit, is {comparison.max_difference:.3g} (allowed: {facts.stage.export.tolerance:g}). "
        f"The most likely token is the same at {100 * comparison.argmax_agreement:.2f} % of the positions. "
        "`parity.json` records this check and the digest of every other file in this folder."
    )


def write_card(folder: Path, facts: CardFacts, paths: RunPaths) -> None:
    """Write README.md."""
    (folder / "README.md").write_text(render_card(facts, paths), encoding="utf-8")
