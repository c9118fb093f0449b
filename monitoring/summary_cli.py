"""`bloomery summary`: show what a run has produced, and the command to type next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from monitoring.summary import RunSummary

app = typer.Typer(help="Show what a run has produced.", add_completion=False)

_RULES_SHOWN = 6


@app.command()
def summary(
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/sample.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON document on stdout.")] = False,
) -> None:
    """Show what a run has produced: documents, tokens, losses, parity, generated text, sizes, and the next command."""
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table
    from bloomery.orchestration.prepare_run import check_run
    from monitoring.summary import gather_summary

    check_run(run)
    facts = gather_summary(run)
    if as_json:
        print(dump_json({**asdict(facts), "next": next_command(facts)}), end="")
        return
    rows = lines(facts)
    styles = ["red" if text.startswith("FAILS") else "" for _, text in rows]
    print_table(("", ""), rows, title=facts.run, styles=styles)


def lines(facts: RunSummary) -> list[tuple[str, str]]:
    """Return the rows of the summary, one fact per row."""
    from bloomery.base.units import format_bytes, format_energy, format_finite, format_seconds
    from bloomery.contracts.metrics_record import perplexity

    rows: list[tuple[str, str]] = []
    if corpus := facts.corpus:
        removed = [f"{count} {rule.replace('_', ' ')}" for rule, count in corpus.removed.items()]
        rules = f": {', '.join(removed[:_RULES_SHOWN])}" if removed else ""
        more = f", and {len(removed) - _RULES_SHOWN} more rules" if len(removed) > _RULES_SHOWN else ""
        rows += [
            ("documents read", f"{corpus.documents_in:,} ({corpus.bad_rows:,} unreadable rows quarantined)"),
            ("documents removed", f"{sum(corpus.removed.values()):,}{rules}{more}"),
            (
                "documents kept",
                f"{corpus.documents_out:,} in {corpus.languages} languages, {format_bytes(corpus.bytes_out)}",
            ),
        ]
    if index := facts.index:
        rows += [
            ("tokenizer", f"vocabulary of {index.vocabulary_size:,} entries"),
            (
                "index",
                f"{index.tokens:,} tokens, {index.train_samples:,} samples, {index.validation_sets} validation sets",
            ),
        ]
    if training := facts.training:
        done = (
            f"{training.iteration:,} of {training.total_iterations:,} iterations, {training.consumed_tokens:,} tokens"
        )
        speed = f"{format_seconds(training.seconds)}, {training.tokens_per_second:,.0f} tokens/s"
        rows += [
            ("training", f"{done}, {speed}"),
            ("loss", f"{format_finite(training.first_loss, '.3f')} -> {format_finite(training.last_loss, '.3f')}"),
        ]
        if training.first_validation is not None and training.last_validation is not None:
            change = f"{training.first_validation:.3f} -> {training.last_validation:.3f}"
            rows.append(("validation loss", f"{change} (perplexity {perplexity(training.last_validation):,.1f})"))
        if training.skipped_samples or training.skipped_updates:
            left_out = f"{training.skipped_samples:,} samples, {training.skipped_updates:,} updates"
            rows.append(("skipped", left_out))
        if training.energy_kwh is not None and training.co2_kg is not None:
            said = format_energy(training.energy_kwh, training.co2_kg, training.estimated_kwh)
            rows.append(("energy", said))
    for model in facts.models:
        verdict = "holds" if model.passed else "FAILS"
        rows += [
            ("model", f"{model.folder}: {model.parameters:,} parameters, {format_bytes(model.bytes)}"),
            (
                "parity",
                f"{verdict}: the logits of the exported model differ from those of the training by at most "
                f"{model.max_difference:.2g} of the largest logit (limit {model.tolerance:g})",
            ),
            ("generated text", _one_line(f"{model.prompt} >>> {model.text}")),
        ]
    if facts.published:
        where = facts.published.get("endpoint") or f"{facts.run}/published"
        what = [facts.published[role] for role in ("model", "logs") if facts.published[role]]
        rows.append(("published", f"{' and '.join(what)} at {where}"))
    if facts.seconds:
        slowest = sorted(facts.seconds.items(), key=lambda item: -item[1])[:4]
        rows.append(("slowest rules", ", ".join(f"{rule} {format_seconds(value)}" for rule, value in slowest)))
    rows.append(("next", next_command(facts)))
    return rows


def _one_line(text: str) -> str:
    return " ".join(text.split())


def next_command(facts: RunSummary) -> str:
    """Return the command to type next."""
    is_sample = Path(facts.run).name == "sample"
    resume = facts.resume_command or "the command that started the run"
    if not facts.models:
        return f"{resume} (to resume the run)"
    if is_sample:
        config = "config/udhr.yaml"
        return f"snakemake --profile slurm --configfile {config}" if facts.on_cluster else f"make run CONFIG={config}"
    return f"{resume} --report {shlex.quote(f'{facts.run}/report.zip')}"
