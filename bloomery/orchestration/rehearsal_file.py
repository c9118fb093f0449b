"""A rehearsal's YAML: small, and beside each key that was changed what it was and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bloomery.orchestration.site_file import scalar

HEADER = "# Rehearsal of "
"""How such a file begins; another file is not replaced."""

_WHY = {
    "name": "a run of its own",
    "sources.max_documents": "a little text",
    "corpus.dedup.partitions": "few jobs",
    "tokenizer.vocabulary_size": "quick to train",
    "tokenizer.reserved_tokens": "leaves room in a small vocabulary",
    "index.validation_share": "of little text, enough to validate on",
    "model.layers": "one or two a pipeline stage",
    "model.hidden_size": "tiny",
    "model.heads": "a multiple of the tensor-parallel size",
    "model.sequence_length": "short",
    "model.init_std": "that of the small width",
    "training.train_samples": "some tens of iterations",
    "training.parallel.tensor": "the nodes are filled exactly",
    "training.parallel.pipeline": "the nodes are filled exactly",
    "training.parallel.data": "the nodes are filled exactly",
    "training.batch.micro_batch_size": "small",
    "training.batch.micro_batch_changes": "with the one step of growth",
    "training.batch.global_batch_size": "as many micro-batches as stages, at least",
    "training.batch.rampup.start": "one step of growth",
    "training.batch.rampup.increment": "one step of growth",
    "training.batch.rampup.samples": "early in the training",
    "training.optimizer.warmup_samples": "early in the training",
    "training.optimizer.decay_samples": "the end of this training",
    "training.checkpoint.every_iterations": "several checkpoints",
    "training.checkpoint.keep_last": "some are removed",
    "training.validation.every_iterations": "more than one validation",
    "training.validation.samples": "quick",
    "training.segment.minutes": "several segments: the chain is tried too",
    "training.segment.iterations": "several segments: the chain is tried too",
    "training.on_change": "each rehearsal may begin anew",
    "publish.hub": "nothing leaves the cluster",
}
"""Why a key differs from the run's own."""


def render(values: Mapping[str, Any], before: Mapping[str, Any], origin: str, nodes: int, command: str) -> str:
    """The file.

    Args:
        values: the rehearsal (`bloomery.orchestration.rehearsal`).
        before: the run that is rehearsed, with every default, as JSON.
        origin: file of that run.
        nodes: nodes that the layout fills.
        command: how to start it.
    """
    where = f"{nodes} node{'s' if nodes > 1 else ''}"
    lines = [
        f"{HEADER}{origin} on {where}: the same way with a tiny model, to try a change first.",
        "# Written by `bloomery cluster rehearse`. Comments say what the run itself has, and why it differs here.",
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
