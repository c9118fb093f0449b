"""Render a rehearsal's YAML. A comment beside each changed key gives the run's own value and the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bloomery.orchestration.site_file import scalar

HEADER = "# Rehearsal of "
"""First words of a rehearsal's file. `bloomery cluster rehearse` never replaces a file that begins differently."""

_WHY = {
    "name": "a separate run",
    "sources.max_documents": "less text",
    "corpus.dedup.partitions": "fewer jobs",
    "tokenizer.vocabulary_size": "quick to train",
    "tokenizer.reserved_tokens": "leaves room in a small vocabulary",
    "index.validation_share": "enough validation text from a small corpus",
    "model.layers": "one or two per pipeline stage",
    "model.hidden_size": "tiny",
    "model.heads": "a multiple of the tensor-parallel size",
    "model.sequence_length": "short",
    "model.init_std": "the default for the small width",
    "training.train_samples": "a few dozen iterations",
    "training.parallel.tensor": "fills the nodes exactly",
    "training.parallel.pipeline": "fills the nodes exactly",
    "training.parallel.data": "fills the nodes exactly",
    "training.batch.micro_batch_size": "small",
    "training.batch.micro_batch_changes": "one change, at the full batch",
    "training.batch.global_batch_size": "at least as many micro-batches as stages",
    "training.batch.rampup.start": "one step to the full batch",
    "training.batch.rampup.increment": "one step to the full batch",
    "training.batch.rampup.samples": "ends early in the training",
    "training.optimizer.warmup_samples": "ends early in the training",
    "training.optimizer.decay_samples": "ends with this training",
    "training.checkpoint.every_iterations": "several checkpoints",
    "training.checkpoint.keep_last": "some checkpoints are removed",
    "training.validation.every_iterations": "more than one validation",
    "training.validation.samples": "quick",
    "training.segment.minutes": "several segments, to test the chain too",
    "training.segment.iterations": "several segments, to test the chain too",
    "training.on_change": "a changed rehearsal starts from scratch",
    "publish.hub": "nothing leaves the cluster",
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
        f"{HEADER}{origin} on {where}: the same workflow with a tiny model, to test a change first.",
        "# Written by `bloomery cluster rehearse`. Comments give the run's own value and why this file differs.",
        "#",
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
