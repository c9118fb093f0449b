"""The page of the logs' repository: what the run is and where its training stands.

Equal files give equal bytes, without clock times, so that a run that stood still makes no commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bloomery.base.errors import InputError
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
) -> str:
    """README.md with front matter.

    Args:
        run: its name.
        model: name of the model that it trains.
        files: those of the repository (path there -> file).
        step: the newest one.
        validation: the newest one.
        finished: whether the training has ended.
    """
    rows = [("state", "finished" if finished else "training" if step else "before training")]
    if step:
        share = 100 * step.iteration / max(1, step.total_iterations)
        rows += [
            ("iteration", f"{step.iteration:,} of {step.total_iterations:,} ({share:.1f} %)"),
            ("consumed tokens", f"{step.consumed_tokens:,}"),
            ("loss", format_finite(step.loss, ".4f")),
            ("gradient norm", format_finite(step.grad_norm, ".3f")),
            ("learning rate", f"{step.learning_rate:.3E}"),
        ]
    if validation:
        mean = validation.validation_mean
        said = f"{format_finite(mean, '.4f')} (perplexity {format_finite(perplexity(mean), ',.1f')})"
        rows.append(("validation loss", f"{said} after iteration {validation.iteration:,}"))
    segments = list(_segments(files))
    text = (
        "---\ntags:\n- tensorboard\n- bloomery\n---\n\n"
        f"# Logs of the run `{run}`\n\n"
        f"What the training of `{model}` says about itself.\n\n"
        + _table(("training", ""), rows)
        + "\n| folder | holds |\n|---|---|\n"
        "| `logs/` | `metrics.jsonl` (a record for each iteration, validation and event), `main_log.txt`, TensorBoard "
        "files (against steps; `vs-samples` and `vs-tokens` against those) |\n"
        "| `segments/` | why each piece of the training ended |\n"
        "| `report/` | pages about corpus, tokenizer and training |\n"
        "| `config/` | the configuration that each stage saw |\n"
        "| `archive/` | logs of trainings that were begun anew |\n"
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
                continue  # the page is no place to complain: the file itself is there
    return sorted(found, key=lambda segment: segment.number)


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)
