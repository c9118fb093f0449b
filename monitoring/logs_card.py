"""Render the README.md of the logs repository: what the run is and how far its training is.

The page depends only on the files of the run and has no clock times. So it stays the same while the run makes no
progress, and a sync then makes no commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.base.markdown_text import markdown_code, markdown_text
from bloomery.base.units import format_finite
from bloomery.contracts.metrics_record import MetricsRecord, ValidationRecord, perplexity
from bloomery.contracts.segment import Segment, read_segment

_SEGMENTS_SHOWN = 20


def logs_card(
    run: str,
    model: str,
    files: Mapping[str, Path],
    step: MetricsRecord | None,
    validation: ValidationRecord | None,
    *,
    finished: bool,
    stale: str | None = None,
) -> str:
    """Return the text of README.md with front matter.

    Args:
        run: name of the run.
        model: name of the model that the run trains.
        files: files of the repository (path in the repository -> local file).
        step: newest record of an iteration; None before the first iteration.
        validation: newest record of a validation; None before the first validation.
        finished: whether the training has ended.
        stale: sentence that says that the training is out of date; None if the training is up to date.
    """
    rows = [("state", "finished" if finished else "training" if step else "before training")]
    if step:
        share = 100 * step.iteration / max(1, step.total_iterations)
        rows += [
            ("iteration", f"{step.iteration:,} of {step.total_iterations:,} ({share:.1f} %)"),
            ("consumed tokens", f"{step.consumed_tokens:,}"),
            ("training loss of this iteration", format_finite(step.loss, ".4f")),
            ("gradient norm of this iteration", format_finite(step.grad_norm, ".3f")),
            ("learning rate", f"{step.learning_rate:.3E}"),
        ]
    if validation:
        mean = validation.validation_mean
        said = f"{format_finite(mean, '.4f')} (perplexity of the mean: {format_finite(perplexity(mean), ',.1f')})"
        name = f"mean validation loss over {len(validation.validation)} sets"
        rows.append((name, f"{said} after iteration {validation.iteration:,}"))
    segments = list(_segments(files))
    text = (
        "---\ntags:\n- tensorboard\n- bloomery\n---\n\n"
        f"# Logs of the run {markdown_code(run)}\n\n"
        f"This repository contains the logs of the training of {markdown_code(model)}.\n\n"
        + (f"**{markdown_text(stale)}**\n\n" if stale is not None else "")
        + _table(("training", ""), rows)
        + "\n| folder | content |\n|---|---|\n"
        "| `logs/` | `metrics.jsonl` (a record for each iteration, validation and event), `main_log.txt`, TensorBoard "
        "files (the x axis is the iteration; in `vs-samples` it is samples, in `vs-tokens` tokens) |\n"
        "| `segments/` | one file for each segment of the training, with the reason why it ended |\n"
        "| `report/` | pages about corpus, tokenizer and training |\n"
        "| `config/` | the section of the configuration that each stage read |\n"
        "| `archive/` | logs of earlier trainings of this run, before a restart from the beginning |\n"
    )
    if segments:
        shown = segments[-_SEGMENTS_SHOWN:]
        more = f" (the last {len(shown)} of {len(segments)})" if len(shown) < len(segments) else ""
        ended = [
            (str(entry.number), f"{entry.status.value} after iteration {entry.iteration:,}", entry.checkpoint or "")
            for entry in shown
        ]
        text += f"\n## Segments{more}\n\n" + _table(("segment", "ended", "checkpoint"), ended)
    return text


def _segments(files: Mapping[str, Path]) -> Iterable[Segment]:
    found = []
    for name, path in files.items():
        if name.startswith("segments/") and name.count("/") == 1:
            try:
                found.append(read_segment(path))
            except InputError:
                continue  # the page omits a damaged file, but the repository contains the file
    return sorted(found, key=lambda segment: segment.number)


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *(tuple(map(markdown_text, row)) for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)
