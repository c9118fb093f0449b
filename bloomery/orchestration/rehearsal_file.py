"""Render a rehearsal's YAML. A comment beside each changed key gives the run's own value and the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bloomery.orchestration.site_file import scalar

HEADER = "# Rehearsal of "
"""First words of a rehearsal's file. `bloomery cluster rehearse` never replaces a file that begins differently."""

_WHY = {
    "name": "the rehearsal is a separate run",
    "sources.max_documents": "less text to process",
    "corpus.dedup.partitions": "fewer jobs that search for duplicates",
    "tokenizer.vocabulary_size": "a small vocabulary is quick to train",
    "tokenizer.reserved_tokens": "fewer reserved tokens leave more room in the small vocabulary",
    "index.validation_share": "a larger share gives enough validation text in the small corpus",
    "model.layers": "one or two layers per pipeline stage",
    "model.hidden_size": "a tiny hidden size",
    "model.heads": "the number of heads is a multiple of the tensor-parallel size",
    "model.sequence_length": "short samples",
    "model.init_std": "the default for the small hidden size",
    "training.train_samples": "the training has only a few dozen iterations",
    "training.parallel.tensor": "the layout fills the nodes exactly",
    "training.parallel.pipeline": "the layout fills the nodes exactly",
    "training.parallel.data": "the layout fills the nodes exactly",
    "training.batch.micro_batch_size": "small micro-batches",
    "training.batch.micro_batch_changes": "the micro-batch size changes once, at the full batch size",
    "training.batch.global_batch_size": "at least as many micro-batches as pipeline stages",
    "training.batch.rampup.start": "the ramp-up reaches the full batch size in one step",
    "training.batch.rampup.increment": "the ramp-up reaches the full batch size in one step",
    "training.batch.rampup.samples": "the ramp-up ends early in the training",
    "training.batch_scaling.base_batch": "the small batch has the run's peak learning rate",
    "training.batch_scaling.base_learning_rate": "the small batch has the run's peak learning rate",
    "training.batch_scaling.warmup_iterations": "the warm-up ends early in the training",
    "training.optimizer.warmup_samples": "the warm-up ends early in the training",
    "training.optimizer.decay_samples": "the decay ends with the rehearsal",
    "training.checkpoint.every_iterations": "the training saves several checkpoints",
    "training.checkpoint.keep_last": "the training also removes old checkpoints",
    "training.validation.every_iterations": "the training runs more than one validation",
    "training.validation.samples": "a quick validation",
    "training.segment.minutes": "several short segments also test the chain of segments",
    "training.segment.iterations": "several short segments also test the chain of segments",
    "training.on_change": "a changed rehearsal restarts from the beginning",
    "publish.hub": "the rehearsal publishes nothing on a Hub",
}
"""Reason why a key's value differs from the run's own value."""


def render(values: Mapping[str, Any], before: Mapping[str, Any], origin: str, nodes: int, command: str) -> str:
    """Return the text of the rehearsal's file.

    Args:
        values: values of the rehearsal (`bloomery.orchestration.rehearsal`).
        before: values of the run that is rehearsed, with every default, as JSON.
        origin: configuration file of the run that is rehearsed.
        nodes: number of nodes that the layout fills.
        command: command that starts the rehearsal.
    """
    where = f"{nodes} node{'s' if nodes > 1 else ''}"
    lines = [
        f"{HEADER}{origin} on {where}: the same workflow with a tiny model, to test a change before the run uses it.",
        "# Written by `bloomery cluster rehearse`. A comment gives the run's own value of a key, and why it differs.",
        "# This command starts the rehearsal:",
        f"#   {command}",
    ]
    for key, value in values.items():
        lines += (
            ["", *_entry(key, value, before.get(key), key, "")]
            if isinstance(value, dict | list)
            else _entry(key, value, before.get(key), key, "")
        )
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, before: Any, path: str, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield f"{indent}{key}:"
        inner = before if isinstance(before, dict) else {}
        for name, item in value.items():
            yield from _entry(name, item, inner.get(name), f"{path}.{name}", f"{indent}  ")
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        yield f"{indent}{key}:"
        for number, item in enumerate(value):
            old = before[number] if isinstance(before, list) else {}
            lines = [
                line for name in item for line in _entry(name, item[name], old.get(name), f"{path}.{name}", "    ")
            ]
            yield f"{indent}  - {lines[0].lstrip()}"
            yield from (f"{indent}{line}" for line in lines[1:])
    else:
        yield f"{indent}{key}: {scalar(value)}{_because(value, before, path)}"


def _because(value: Any, before: Any, path: str) -> str:
    if value == before:
        return ""
    why = _WHY.get(path, "")
    return f"  # {'all' if before is None and 'max_documents' in path else scalar(before)}{f': {why}' if why else ''}"
