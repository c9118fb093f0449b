"""Write the parts of the card about the network, the training, its hardware, and everything that the model was made
from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.markdown_text import markdown_table
from bloomery.base.units import format_energy, format_seconds
from bloomery.spec.batch_scaling import resolved_optimizer
from bloomery.spec.flops import iteration_flops
from bloomery.spec.trajectory import trajectory
from export.card.folded import folded
from export.card.key_rows import key_rows, without_keys

if TYPE_CHECKING:
    from bloomery.config.training import BatchConfig
    from export.card.facts import CardFacts, RunRecords
    from export.card.hardware import Hardware

_POSITIONS = {"alibi": "ALiBi", "learned": "learned", "rotary": "rotary"}
PATH_KEYS = frozenset({"training.initial_checkpoint"})
"""Keys of the training whose values are paths of a machine. They may change freely, so no checkpoint records them as
changed. The summary of the card names the origin of the initial weights."""
_ACTIVATIONS = {"gelu": "GELU (tanh approximation)", "swiglu": "SwiGLU"}


def network(facts: CardFacts) -> str:
    """Return the table of the network."""
    model = facts.model
    rows = [
        ["class in transformers", facts.family.architecture],
        ["parameters", f"{facts.parameters:,}"],
        ["blocks", str(model.layers)],
        ["hidden size", str(model.hidden_size)],
        ["heads", f"{model.heads} of {model.head_size} features"],
        ["feed-forward size", str(model.ffn_size)],
        ["activation", _ACTIVATIONS.get(model.activation, model.activation)],
        ["positions", _POSITIONS.get(model.positions, model.positions)],
        ["LayerNorm after the embedding", "yes" if model.embedding_layernorm else "no"],
        ["output head", "the embedding matrix" if model.tied_embeddings else "a matrix of its own"],
        ["sequence length", f"{model.sequence_length} tokens"],
        ["vocabulary", f"{facts.manifest.vocabulary_size:,} entries, {facts.vocabulary_rows:,} embedding rows"],
        ["weights", _weights(facts)],
    ]
    return markdown_table(["", ""], rows)


def _weights(facts: CardFacts) -> str:
    if facts.rounded_to is None:
        return facts.dtype
    return (
        f"{facts.dtype}: the fp32 master weights of the training, whose network computed with these weights rounded to "
        f"{facts.rounded_to}"
    )


def training(facts: CardFacts) -> str:
    """Return the table of the training, and a folded table of all keys of its configuration."""
    manifest, settings = facts.manifest, facts.trained
    optimizer = resolved_optimizer(settings)
    rows = [
        ["iterations", f"{manifest.iteration:,}"],
        ["samples", f"{manifest.consumed_samples:,}{_skipped(manifest.skipped_samples)}"],
        ["tokens", f"{manifest.consumed_tokens:,}"],
        ["compute", f"{_model_flops(facts):.3g} FLOPs of the model, without recomputation"],
        ["global batch", f"{settings.batch.global_batch_size} samples{_rampup(settings.batch)}"],
        [
            "learning rate",
            f"at most {optimizer.learning_rate:g}, {optimizer.schedule} to {optimizer.min_learning_rate:g}",
        ],
        ["optimizer", optimizer.kind],
        ["weight decay", f"{optimizer.weight_decay:g}"],
        ["precision", settings.precision],
        ["seed", str(facts.trained_stage.seed)],
        [
            "layout",
            f"tensor {manifest.tensor_parallel} x pipeline {manifest.pipeline_parallel} "
            f"x data {manifest.data_parallel}",
        ],
        ["software", ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items()))],
    ]
    parts = [markdown_table(["", ""], rows)]
    if manifest.changes:
        changes = [
            [f"{change.iteration:,}", change.key, _shown(change.before), _shown(change.after)]
            for change in manifest.changes
        ]
        parts.append("Keys that changed during the training:")
        parts.append(markdown_table(["after iteration", "key", "before", "after"], changes))
    keys = facts.trained_stage.model_dump(mode="json", include={"seed", "model", "training"})
    shown = without_keys(key_rows(keys), PATH_KEYS)
    parts.append(folded("All keys of the training", markdown_table(["key", "value"], list(shown))))
    return "\n\n".join(parts)


def _shown(value: object) -> str:
    return ", ".join(text for _, text in key_rows(value))


def _skipped(samples: int) -> str:
    return f", {samples:,} of them skipped" if samples else ""


def _rampup(batch: BatchConfig) -> str:
    return f", after a ramp-up from {batch.rampup.start}" if batch.rampup is not None else ""


def _model_flops(facts: CardFacts) -> float:
    """Return the operations of the samples that the model was trained on, forward and backward, without recomputation.

    A curriculum shortens samples, so the operations are then summed over the ranges of iterations with equal length.
    """
    model, manifest, settings = facts.model, facts.manifest, facts.trained
    if settings.curriculum is None:
        samples = manifest.consumed_samples - manifest.skipped_samples
        return iteration_flops(model, facts.vocabulary_rows, samples, recomputed=False)
    return sum(
        max(0, min(each.steps, manifest.iteration - each.iteration))
        * iteration_flops(
            model,
            facts.vocabulary_rows,
            each.global_batch_size,
            recomputed=False,
            sequence_length=each.sequence_length,
        )
        for each in trajectory(model, settings).stretches
    )


def hardware(records: RunRecords) -> str | None:
    """Return the table of devices, hours and energy. Return None if the run recorded none of them."""
    rows = _hours(records.hardware) if records.hardware is not None else []
    if energy := records.energy:
        nodes = f"{energy.nodes} nodes" if energy.nodes != 1 else "one node"
        rows.append(
            [
                f"energy of processors and memory (all segments, {nodes}, recorded by codecarbon)",
                format_energy(energy.energy_kwh, energy.co2_kg, energy.estimated_kwh)
                + ". The CO2 is estimated from the energy mix of the country.",
            ]
        )
    return markdown_table(["", ""], rows) if rows else None


def _hours(found: Hardware) -> list[list[str]]:
    rows = [["devices", "; later ".join(found.devices)]] if found.devices else []
    if found.segments:
        times = f"iterations {format_seconds(found.iteration_seconds)}"
        for name, seconds in (("saves", found.save_seconds), ("validation", found.validation_seconds)):
            times += f", {name} {format_seconds(seconds)}" if seconds else ""
        rows.append(["time, with repeated iterations", f"{format_seconds(found.seconds)} ({times})"])
        rows.append(["segments", str(found.segments)])
    if found.device_seconds is not None:
        rows.append([f"{found.device} hours", f"{found.device_seconds / 3600:,.3g}"])
    return rows


_INPUTS = {
    "checkpoint": "checkpoint (SHA-256 of its manifest)",
    "tokenizer": "tokenizer",
    "configuration": "configuration of the export",
}


def lineage(facts: CardFacts, records: RunRecords) -> str:
    """Return the table of digests of everything that the model was made from."""
    manifest = facts.manifest
    rows = [[_INPUTS.get(name, name), digest] for name, digest in sorted(facts.made_from.items())]
    rows.append(["training (configuration, tokenizer and seed)", manifest.identity])
    if records.index is not None:
        rows.append(["token index", records.index.digest])
    rows += [
        [f"repair after iteration {repair.iteration:,} ({repair.method})", f"{len(repair.tensors)} tensors"]
        for repair in manifest.repairs
    ]
    older = f"The training is {records.stale}.\n\n" if records.stale else ""
    return f"{older}{markdown_table(['made from', 'digest'], rows)}"
