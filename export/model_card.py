"""Render the model card, README.md. Every number comes from the run's files. Missing facts are marked as such."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.base.markdown_text import markdown_code, markdown_text
from bloomery.base.units import format_bytes, format_count, format_energy, format_finite
from bloomery.contracts.metrics_record import perplexity
from bloomery.contracts.read_metrics import total_energy, valid_records
from bloomery.contracts.resume_policy import saved_stage
from bloomery.contracts.stale_artefacts import TRAINING, Stale, stale_artefacts
from bloomery.spec.flops import iteration_flops
from bloomery.spec.trajectory import trajectory
from bloomery.spec.weight_files import export_dtype, rounded_dtype

if TYPE_CHECKING:
    from bloomery.config.stages import ExportStage
    from bloomery.config.training import BatchConfig, TrainingConfig
    from bloomery.contracts.checkpoint import CheckpointManifest
    from bloomery.contracts.paths import RunPaths
    from export.proof.comparison import Comparison

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

    @property
    def trained(self) -> TrainingConfig:
        """Settings of the training, as the checkpoint records them."""
        return saved_stage(self.manifest).training

    @property
    def dtype(self) -> str:
        """Data type of the exported weights, such as `bfloat16`."""
        return export_dtype(self.stage.export, self.trained.precision)

    @property
    def rounded_to(self) -> str | None:
        """Data type of the training's weights if their fp32 master weights are exported, otherwise None."""
        return rounded_dtype(self.stage.export, self.trained.precision)


def corpus_languages(paths: RunPaths) -> dict[str, dict[str, Any]] | None:
    """Return the facts of each language with a weight above 0, from corpus/mixture.json.

    Return None if the file is missing.

    Raises:
        InputError: the file has no table of languages, or a language lacks a fact.
    """
    path = paths.corpus / "mixture.json"
    if not path.is_file():
        return None
    value = read_json(path)
    languages = value.get("languages") if isinstance(value, dict) else None
    if not isinstance(languages, dict):
        raise InputError(
            "the file has no table of languages",
            where=str(path),
            expected='{"languages": {code: {...}}, ...}; restore this file',
        )
    for code, facts in languages.items():
        numbers = facts if isinstance(facts, dict) else {}
        missing = [key for key in _LANGUAGE_FACTS if not _is_number(numbers.get(key))]
        if missing:
            raise InputError(
                f"the entry of language {code!r} lacks the number{'s' * (len(missing) > 1)} {_quoted(missing)}",
                where=str(path),
                expected=f"the numbers {_quoted(_LANGUAGE_FACTS)} for every language; restore this file",
            )
    return {code: facts for code, facts in sorted(languages.items()) if facts["weight"] > 0}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


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
        ("## Corpus", _corpus(languages, stale_artefacts(paths).get(TRAINING))),
        ("## Licences of the sources", _licences(facts.stage.licences)),
        ("## Parity with the training", _parity(facts)),
    ]
    body = "\n\n".join(f"{title}\n\n{text}".strip() for title, text in sections)
    return f"---\n{header}---\n\n# {markdown_text(facts.stage.model_name)}\n\n{body}\n"


def _table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a table. The cells may contain any text, such as the names of licences in a configuration."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(markdown_text, row)) + " |" for row in rows)])


def _summary(facts: CardFacts) -> str:
    return (
        f"This is a language model with BLOOM's architecture and {facts.parameters:,} parameters "
        f"({format_count(facts.parameters)}). The run {markdown_code(facts.stage.name)} of Bloomery trained the model "
        f"on {facts.manifest.consumed_tokens:,} tokens. The model was exported from the checkpoint "
        f"{markdown_code(facts.checkpoint)}. "
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
        ["weights", _weights(facts)],
    ]
    return _table(["", ""], rows)


def _weights(facts: CardFacts) -> str:
    if facts.rounded_to is None:
        return facts.dtype
    return f"{facts.dtype}: the fp32 master weights of the training, which computed with them in {facts.rounded_to}"


def _training(facts: CardFacts) -> str:
    manifest = facts.manifest
    training = facts.trained
    optimizer = training.optimizer
    rows = [
        ["iterations", f"{manifest.iteration:,}"],
        ["samples", f"{manifest.consumed_samples:,}{_skipped(manifest.skipped_samples)}"],
        ["tokens", f"{manifest.consumed_tokens:,}"],
        ["compute", f"{_model_flops(facts):.3g} FLOPs of the model, without recomputation"],
        ["global batch", f"{training.batch.global_batch_size} samples{_rampup(training.batch)}"],
        [
            "learning rate",
            f"at most {optimizer.learning_rate:g}, {optimizer.schedule} to {optimizer.min_learning_rate:g}",
        ],
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


def _skipped(samples: int) -> str:
    return f", {samples:,} of them skipped" if samples else ""


def _rampup(batch: BatchConfig) -> str:
    return f", after a ramp-up from {batch.rampup.start}" if batch.rampup is not None else ""


def _model_flops(facts: CardFacts) -> float:
    """Return the operations of the samples that the model was trained on, forward and backward, without recomputation.

    A curriculum shortens samples, so the operations are then summed over the stretches of equal length.
    """
    stage, manifest, training = facts.stage, facts.manifest, facts.trained
    if training.curriculum is None:
        samples = manifest.consumed_samples - manifest.skipped_samples
        return iteration_flops(stage.model, facts.vocabulary_rows, samples, recomputed=False)
    return sum(
        max(0, min(each.steps, manifest.iteration - each.iteration))
        * iteration_flops(
            stage.model,
            facts.vocabulary_rows,
            each.global_batch_size,
            recomputed=False,
            sequence_length=each.sequence_length,
        )
        for each in trajectory(stage.model, training).stretches
    )


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
        parts.append(f"Training loss of iteration {trained[-1].iteration:,}, the last one: {loss}.")
    if validated:
        record = validated[-1]
        parts.append(
            f"Validation loss after iteration {record.iteration:,} "
            f"(mean over {len(record.validation)} validation sets: {format_finite(record.validation_mean, '.4f')}):"
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
            f"Energy of the training's processors and memory (all segments, {nodes}, recorded by codecarbon): "
            f"{format_energy(energy.energy_kwh, energy.co2_kg, energy.estimated_kwh)}. "
            "The CO2 is estimated from the energy mix of the country."
        )
    return "\n\n".join(parts) or NOT_RECORDED


def _corpus(languages: dict[str, dict[str, Any]] | None, stale: Stale | None) -> str:
    """Return the table of languages. If the training is `stale`, the table may describe another corpus."""
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
    older = (
        f"The training is {stale}, so the model may have read other text than this table shows.\n\n" if stale else ""
    )
    note = "\n\nThe language `code` is source code." if CODE in languages else ""
    return f"{older}Documents and text of each language after cleaning and deduplication:\n\n{table}{note}"


def _licences(licences: dict[str, str]) -> str:
    if not licences:
        return NOT_RECORDED
    return _table(["source", "licence"], [[name, licence] for name, licence in sorted(licences.items())])


def _parity(facts: CardFacts) -> str:
    comparison = facts.comparison
    rounded = f" with its weights rounded to {facts.rounded_to}" if facts.rounded_to else ""
    return (
        f"The fp32 logits of this model{rounded} were compared with the logits of the training processes at "
        f"{comparison.tokens:,} positions of {comparison.samples} samples. The largest difference, relative to the "
        f"largest logit, is {comparison.max_difference:.3g} (allowed: {facts.stage.export.tolerance:g}). "
        f"The most likely token is the same at {100 * comparison.argmax_agreement:.2f} % of the positions. "
        "`parity.json` records this check and the digest of every other file in this folder."
    )


def write_card(folder: Path, facts: CardFacts, paths: RunPaths) -> None:
    """Write README.md."""
    (folder / "README.md").write_text(render_card(facts, paths), encoding="utf-8")
